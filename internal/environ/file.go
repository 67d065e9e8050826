package environ

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

// readFile reads NAME=value lines. A name that the file gives twice has its
// last value; blank lines, comments, `export` and quotes are understood.
// A relative path is one beside the workflow file at base. missing says that
// the file is not there and need not be.
func readFile(ctx context.Context, f workflow.EnvFile, base string, sc *vars.Scope, set func(string, template.Value)) (missing string, err error) {
	path, err := f.Path.Expand(sc)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(base), path)
	}
	file, err := files.At(path).Open(ctx)
	if errors.Is(err, fs.ErrNotExist) && !f.Required {
		return fmt.Sprintf("%s: env_files: %s is not there and is left out", f.Pos, path), nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: env_files: %w", f.Pos, err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		line = strings.TrimPrefix(line, "export ")
		if line == "" || line[0] == '#' {
			continue
		}
		name, v, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !ok || !isName(name) {
			return "", fmt.Errorf("%s:%d: %q is no NAME=value line", path, n, line)
		}
		set(name, template.Value{V: unquote(strings.TrimSpace(v)), Origin: template.Quoted})
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("%s: env_files: %s: %w", f.Pos, path, err)
	}
	return "", nil
}

func isName(s string) bool {
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
