//go:build !(linux && amd64)

package crashtest

import (
	"errors"
	"os/exec"
)

var errUnsupported = errors.New("effects are watched on Linux and amd64 alone")

// Supported is nil where effects can be watched.
func Supported() error { return errUnsupported }

// Launch does nothing here.
func Launch() {}

// Watch is a program whose effects are watched; there is none here.
type Watch struct{}

// Start gives the error of [Supported].
func Start(*exec.Cmd, func(Effect) Verdict) (*Watch, error) { return nil, errUnsupported }

// Wait gives the error of [Supported].
func (*Watch) Wait() error { return errUnsupported }
