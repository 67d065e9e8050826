package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/value"
)

// The task after a map needs all that the lanes have recorded. The worker that did the task
// before the map keeps its copy of the run up to date in the meantime, and is the first to
// be offered the task after it: then almost nothing is left to read. Where it is gone, another
// one reads everything first (HomeTask.Read). That is a task of its own, as it may be silent
// for a shorter time than a step: nothing is lost if it begins anew.

// keepEvery is how often such a copy takes over what is new.
const keepEvery = 2 * time.Second

// keptCopy is a copy of a run that is kept up to date. Its goroutine owns it until done is
// closed.
type keptCopy struct {
	home *journal.Store
	end  context.CancelFunc
	done chan struct{}
	err  error // why it cannot be used, once done is closed
}

// keep keeps a copy of a run up to date until it is taken, or until the run or its life has
// ended. If tell is not nil, the copy has all that the store has when keep returns, and tell
// is called with the number of items so far if that takes long.
func (w *Worker) keep(ctx context.Context, store Store, t HomeTask, tell func(items int) error) error {
	home, j, err := w.emptyCopy(store, t.Run)
	if err != nil {
		return err
	}
	if err = j.Close(); err == nil && tell != nil {
		err = refreshTelling(ctx, home, t.Run, tell)
	}
	if err != nil {
		return errors.Join(err, discard(home.Dir))
	}
	kept, end := context.WithCancel(context.Background())
	k := &keptCopy{home: home, end: end, done: make(chan struct{})}
	key := lifeKey(store, t.Run, t.Life)
	w.mu.Lock()
	was := w.copies[key]
	value.Put(&w.copies, key, k)
	w.mu.Unlock()
	if was != nil {
		was.drop()
	}
	go func() {
		defer close(k.done)
		tick := time.NewTicker(keepEvery)
		defer tick.Stop()
		for {
			if k.err = refresh(kept, home, t.Run); k.err != nil || k.over(store, t) {
				break
			}
			select {
			case <-kept.Done():
				return
			case <-tick.C:
			}
		}
		if kept.Err() == nil { // nobody has taken it
			w.mu.Lock()
			if w.copies[key] == k {
				delete(w.copies, key)
			}
			w.mu.Unlock()
			_ = discard(home.Dir) // what is left is removed with the worker's other files
		}
	}()
	return nil
}

// over reports whether nobody will need the copy any more.
func (k *keptCopy) over(store Store, t HomeTask) bool {
	var at position
	text, err := os.ReadFile(filepath.Join(k.home.RunDir(t.Run), positionFile))
	return err == nil && json.Unmarshal(text, &at) == nil && at.Over || store.Run(t.Run).Over(t.Life) != nil
}

// drop ends a copy that nobody needs.
func (k *keptCopy) drop() {
	k.end()
	<-k.done
	_ = discard(k.home.Dir) // what is left is removed with the worker's other files
}

// take gives the copy that is kept of a run, with all that the store has. ok is false if
// there is none.
func (w *Worker) take(ctx context.Context, store Store, t HomeTask) (home *journal.Store, ok bool) {
	key := lifeKey(store, t.Run, t.Life)
	w.mu.Lock()
	k := w.copies[key]
	delete(w.copies, key)
	w.mu.Unlock()
	if k == nil {
		return nil, false
	}
	k.end()
	<-k.done
	if err := refresh(ctx, k.home, t.Run); err != nil {
		_ = discard(k.home.Dir) // the same
		return nil, false
	}
	return k.home, true
}
