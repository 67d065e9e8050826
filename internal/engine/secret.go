package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/workflow"
)

func (r *run) loadSecrets(ctx context.Context) error {
	var errs []error
	// Those of called workflows as well: what is printed before the call is
	// masked, too.
	var list []workflow.Secret
	for _, f := range workflow.Files(r.file) {
		list = append(list, f.Secrets...)
	}
	for _, s := range list {
		if _, known := r.env.secrets[s.Name]; known {
			continue // the outer file's
		}
		v, err := r.secret(ctx, s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: secret %s: %w", s.Pos, s.Name, err))
			continue
		}
		r.env.secrets[s.Name] = v
		r.declared[s.Name] = true
	}
	m, short := mask.New(r.env.secrets)
	r.mask = m
	for _, name := range short {
		r.notes = append(r.notes, fmt.Sprintf("the value of secret %s is shorter than %d characters: it is not masked", name, mask.MinLength))
	}
	return errors.Join(errs...)
}

func (r *run) secret(ctx context.Context, s workflow.Secret) (string, error) {
	key, err := s.Key.Expand(envScope{r.scope})
	if err != nil {
		return "", err
	}
	switch s.Provider {
	case "env":
		v, ok := r.env.values[key]
		if !ok {
			return "", fmt.Errorf("the environment variable %s is not set", key)
		}
		return fmt.Sprint(v.V), nil
	case "file":
		if rest, ok := strings.CutPrefix(key, "~/"); ok {
			if home, ok := r.env.values["HOME"]; ok {
				key = filepath.Join(fmt.Sprint(home.V), rest)
			}
		}
		if !filepath.IsAbs(key) {
			key = filepath.Join(filepath.Dir(r.file.Path), key)
		}
		b, err := os.ReadFile(key)
		return strings.TrimSpace(string(b)), err
	case "command":
		res, err := r.world.Run(ctx, &workflow.Shell{Text: s.Key}, &action.Call{
			Scope: r.scope, Dir: r.dir, Env: r.env.list(), Timeout: time.Minute})
		return res.Output, err
	case "value":
		return key, nil
	}
	return "", fmt.Errorf("the provider %q is not known; use env, file or command", s.Provider)
}
