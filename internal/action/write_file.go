package action

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"go.yaml.in/yaml/v3"
)

// writeFile writes a file inside the step's directory, whole or not at all.
// The directory is opened as a root: neither "..", nor an absolute path, nor a
// symbolic link leads out of it.
func writeFile(a *workflow.WriteFile, c *Call) (Result, error) {
	res := Result{Start: time.Now()}
	path, err := a.Path.Expand(c.Scope)
	if err != nil {
		return res, &InputError{Err: fmt.Errorf("path: %w", err)}
	}
	if err := checkPath(path); err != nil {
		return res, &InputError{Err: err}
	}
	text, err := a.Content.Expand(c.Scope)
	if err != nil {
		return res, &InputError{Err: fmt.Errorf("content: %w", err)}
	}
	content, err := format(a.Format, text)
	if err != nil {
		return res, &InputError{Err: fmt.Errorf("content of %s: %w", path, err)}
	}
	if err := writeInside(c.Dir, path, content, a.Mode, a.CreateDirs); err != nil {
		return res, fmt.Errorf("write_file %s: %w", path, err)
	}
	res.Output, res.Duration = path, time.Since(res.Start)
	return res, nil
}

func checkPath(path string) error {
	switch {
	case path == "":
		return errors.New("path: it is empty")
	case filepath.IsAbs(path):
		return fmt.Errorf("path: %q is absolute; write it relative to the working directory", path)
	case slices.Contains(strings.Split(path, "/"), ".."):
		return fmt.Errorf("path: %q leads upwards by ..; write it without them, relative to the working directory", path)
	case strings.ContainsRune(path, 0):
		return errors.New("path: it has a NUL byte in it")
	}
	return nil
}

// format checks and prettifies structured content.
func format(kind, text string) ([]byte, error) {
	switch kind {
	case "json":
		if _, err := value.Parse([]byte(text)); err != nil {
			return nil, fmt.Errorf("it is no JSON: %w", err)
		}
		var b bytes.Buffer
		if err := json.Indent(&b, []byte(strings.TrimSpace(text)), "", "  "); err != nil {
			return nil, err
		}
		b.WriteByte('\n')
		return b.Bytes(), nil
	case "yaml":
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(text), &n); err != nil {
			return nil, fmt.Errorf("it is no YAML: %w", err)
		}
		return yaml.Marshal(&n)
	}
	return []byte(text), nil
}

func writeInside(dir, path string, content []byte, mode os.FileMode, makeDirs bool) (err error) {
	dir = cmp.Or(dir, ".")
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if parent := filepath.Dir(path); makeDirs && parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return reason(err)
		}
	}
	mode = cmp.Or(mode, 0o644)
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:8]+".tmp")
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) && !makeDirs {
			return fmt.Errorf("%w; set create_dirs: true to make its folder", reason(err))
		}
		return reason(err)
	}
	_, werr := f.Write(content)
	werr = errors.Join(reason(werr), reason(f.Chmod(mode)), reason(f.Close()))
	if werr == nil {
		werr = reason(root.Rename(tmp, path))
	}
	if werr != nil {
		return errors.Join(werr, reason(root.Remove(tmp)))
	}
	return nil
}

// reason takes the name off an error of the file system: it would be that of
// the temporary file, and in a part of a path a secret is not recognised.
func reason(err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		return pe.Err
	case errors.As(err, &le):
		return le.Err
	}
	return err
}
