package engine

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/proc"
)

// sealEdited masks the secrets in edited items of a run that does not run yet: they are
// computed for it, and what was masked is noted.
func sealEdited(ctx context.Context, j *journal.Journal, opt Options, edited map[int]json.RawMessage) (_ map[int]json.RawMessage, err error) {
	if len(edited) == 0 {
		return nil, nil
	}
	if opt, err = recordedOptions(j, opt); err != nil {
		return nil, err
	}
	if err := fill(&opt); err != nil {
		return nil, err
	}
	sup, err := proc.New(j.ProcDir(), proc.Options{NoCompanion: NoCompanion})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sup.Close()) }()
	opt.Sinks = nil
	r := &run{opt: opt, file: opt.File, j: j, state: &journal.State{}, started: time.Now()}
	defer r.local(sup)()
	if err := r.loadEnv(ctx); err != nil {
		return nil, err
	}
	if err := r.seals.Read(); err != nil {
		return nil, err
	}
	out := make(map[int]json.RawMessage, len(edited))
	for index, item := range edited {
		sealed, marks, err := r.seals.Seal(item)
		if err == nil {
			err = r.seals.Keep(index, marks)
		}
		if err != nil {
			return nil, err
		}
		out[index] = sealed
	}
	return out, nil
}
