package limits

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A command that takes a limit may run inside something that holds it, in another process:
// there is one slot, and it would wait for itself. So a command is told what is held around it.

// AroundEnv is the environment variable which says that, as NAME=PID separated by spaces. It
// is only believed where the process PID has a slot of NAME indeed.
const AroundEnv = "BIDE_LIMITS"

// Around is AroundEnv for a command of this process, which holds some limits for it; outer is
// what it was itself told.
func Around(outer string, names []string) string {
	list := strings.Fields(outer)
	for _, name := range names {
		list = append(list, name+"="+strconv.Itoa(os.Getpid()))
	}
	return strings.Join(list, " ")
}

// AroundError is a limit that is to be taken inside something that holds it.
type AroundError struct {
	Limit string
	By    Who
}

func (e *AroundError) Error() string {
	by := e.By.short()
	if e.By.Run != "" {
		by = "run " + by
		if e.By.Step != "" {
			by += " (" + e.By.Step + ")"
		}
	}
	return fmt.Sprintf("the limit %s is held around this already, by %s: what takes it again would wait for itself; name it in one of the two places only", e.Limit, by)
}

// HeldAround is an *AroundError where one of some limits of a home directory is held around
// this process, as outer, its AroundEnv, says.
func HeldAround(dir, outer string, names []string) (err error) {
	if outer == "" {
		return nil
	}
	h := Open(dir, nil)
	defer func() { err = errors.Join(err, h.Close()) }()
	for _, f := range strings.Fields(outer) {
		name, number, _ := strings.Cut(f, "=")
		if !slices.Contains(names, name) {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "limits", name)); err != nil {
			continue // nobody has used it
		}
		s := Status{Limit: Limit{Name: name}}
		if err := h.look(&s); err != nil {
			return err
		}
		for _, who := range s.Held {
			if strconv.Itoa(who.PID) == number {
				return &AroundError{Limit: name, By: who}
			}
		}
	}
	return nil
}
