package engine

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/value"
)

// again are dead letters as the map takes them. Edited items are recorded with
// their secrets masked, as the list is: seal keeps what was masked, and is called
// before they are recorded.
func (x *mapRun) again(list []journal.DeadLetter, req *journal.RetryRequest) (out []mapper.Again, seal func() error) {
	for _, l := range list {
		out = append(out, mapper.Again{Index: l.Index, ID: l.ID, Attempts: l.Attempts, Class: l.Class, Item: req.Edited[l.Index]})
	}
	return out, func() error {
		x.mu.Lock()
		defer x.mu.Unlock()
		for i := range out {
			l := &out[i]
			if l.Item == nil {
				continue
			}
			sealed, marks, err := x.r.seals.Seal(l.Item)
			if err != nil {
				return err
			}
			if err := x.r.seals.Keep(l.Index, marks); err != nil {
				return err
			}
			l.Item = sealed
			value.Put(&x.edited, l.Index, sealed)
		}
		return nil
	}
}

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
	sup, err := proc.New(j.ProcDir(), proc.Options{NoCompanion: noCompanion})
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
