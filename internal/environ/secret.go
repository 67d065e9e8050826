package environ

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/workflow"
)

// loadSecrets reads the secrets of the file and of the workflows that it calls:
// what is printed before the call is masked, too.
func (e *Environment) loadSecrets(ctx context.Context) error {
	var errs []error
	for _, f := range workflow.Files(e.opt.File) {
		for _, s := range f.Secrets {
			if _, known := e.secrets[s.Name]; known {
				continue // the outer file's
			}
			v, err := e.secret(ctx, s)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: secret %s: %w", s.Pos, s.Name, err))
				continue
			}
			e.secrets[s.Name] = v
			e.declared[s.Name] = true
		}
	}
	m, short := mask.New(e.hidden())
	e.mask.Store(m)
	for _, name := range short {
		e.Notes = append(e.Notes, fmt.Sprintf("the value of secret %s is shorter than %d characters: it is not masked", name, mask.MinLength))
	}
	return errors.Join(errs...)
}

// hidden are the values that are masked, by their names: those of secrets, and of
// the parameters of which secrets are made.
func (e *Environment) hidden() map[string]string {
	all := maps.Clone(e.secrets)
	for _, name := range workflow.SecretParams(e.opt.File) {
		if v, ok := e.Scope.Get(name).(string); ok && all[name] == "" {
			all[name] = v
		}
	}
	return all
}

func (e *Environment) secret(ctx context.Context, s workflow.Secret) (string, error) {
	key, err := s.Key.Expand(envScope{e.Scope})
	if err != nil {
		return "", err
	}
	switch s.Provider {
	case "env":
		v, ok := e.Get(key)
		if !ok {
			return "", fmt.Errorf("the environment variable %s is not set", key)
		}
		return v, nil
	case "file":
		if rest, ok := strings.CutPrefix(key, "~/"); ok {
			if home, ok := e.Get("HOME"); ok {
				key = filepath.Join(home, rest)
			}
		}
		if !filepath.IsAbs(key) {
			key = filepath.Join(filepath.Dir(e.opt.File.Path), key)
		}
		b, err := files.At(key).Read(ctx)
		return strings.TrimSpace(string(b)), err
	case "command":
		return e.opt.Command(ctx, Command{Text: s.Key, Scope: e.Scope, Dir: e.opt.Dir, Env: e.list(), Timeout: time.Minute})
	case "value":
		if name := strings.TrimPrefix(s.Key.String(), "$"); s.Key.IsReference() && s.Key.String() == key && name == strings.ToUpper(name) {
			return "", fmt.Errorf("the environment variable %s is not set", name)
		}
		return key, nil
	}
	return "", fmt.Errorf("the provider %q is not known; use env, file or command", s.Provider)
}
