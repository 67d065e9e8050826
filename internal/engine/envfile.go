package engine

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
)

// loadEnvFile reads NAME=value lines. A name that the file gives twice has its
// last value; blank lines, comments, `export` and quotes are understood.
// A relative path is one beside the workflow file at base.
func (r *run) loadEnvFile(f workflow.EnvFile, base string, set func(string, template.Value)) error {
	path, err := f.Path.Expand(r.scope)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(base), path)
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && !f.Required {
		const left = "%s: env_files: %s is not there and is left out"
		if base != r.file.Path {
			r.note(left, f.Pos, path)
			return nil
		}
		r.notes = append(r.notes, fmt.Sprintf(left, f.Pos, path)) // told when the run has begun
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: env_files: %w", f.Pos, err)
	}
	defer file.Close()
	sc := bufio.NewScanner(file)
	sc.Buffer(nil, 1<<20)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		line = strings.TrimPrefix(line, "export ")
		if line == "" || line[0] == '#' {
			continue
		}
		name, v, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !ok || !isEnvName(name) {
			return fmt.Errorf("%s:%d: %q is no NAME=value line", path, n, line)
		}
		set(name, template.Value{V: unquote(strings.TrimSpace(v)), Origin: template.Data})
	}
	return sc.Err()
}

func isEnvName(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func unquote(v string) string {
	if len(v) >= 2 && v[0] == '\'' && v[len(v)-1] == '\'' {
		return v[1 : len(v)-1]
	}
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n", `\$`, "$").Replace(v[1 : len(v)-1])
	}
	if i := strings.Index(v, " #"); i >= 0 {
		v = strings.TrimSpace(v[:i])
	}
	return v
}
