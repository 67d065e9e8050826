package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
)

// HomeTask is the part of a run that is not its map: what comes before the map or after it,
// or everything if the run has no map.
type HomeTask struct {
	Run   string `json:"run"`
	Store string `json:"store"`
	Life  int    `json:"life"`
	Log   string `json:"log"`
	// Begin says that a life of the run begins, and that this is not recorded yet.
	Begin bool `json:"begin,omitempty"`
	// After says that the map is over and the steps after it are to run. Halt is why it
	// stopped.
	After bool              `json:"after,omitempty"`
	Halt  policy.StopReason `json:"halt,omitempty"`
	// Read says, beside After, that the worker is only to make the copy of the run that these
	// steps need, and to keep it. A worker that has no queue of its own does them as well.
	Read bool `json:"read,omitempty"`
	// Stop says that the run is to stop. If the store is full, nothing else may say so.
	Stop bool `json:"stop,omitempty"`
	// Spent is the time since this life of the run began.
	Spent time.Duration `json:"spent,omitempty"`
}

// HomeDone is the result of a home task.
type HomeDone struct {
	Prefix
	// Status is how the run ended. It is running if the map is next, or if another worker
	// is to continue because this one leaves; "" says that the run has only been read.
	Status string `json:"status"`
	Moved  bool   `json:"moved,omitempty"`
	// Queue is the queue on which this worker gets the task after the map, for which it
	// keeps a copy of the run.
	Queue string `json:"queue,omitempty"`
	// Config and State are those of the map, and Used is what agents have used before it.
	// Without a map they are nil and zero.
	Config *Config      `json:"config,omitempty"`
	State  policy.State `json:"state,omitzero"`
	Used   engine.Usage `json:"used,omitzero"`
}

// Home does a home task. If the run stops or the worker leaves, running steps get a grace.
// When ctx ends, they are ended immediately.
func (w *Worker) Home(ctx context.Context, t HomeTask) (_ HomeDone, err error) {
	store, err := w.Open(t.Store)
	if err != nil {
		return HomeDone{}, err
	}
	shared := store.Run(t.Run)
	if err := shared.Over(t.Life); err != nil {
		return HomeDone{}, err
	}
	log, err := newWriter(shared, t.Log)
	if err != nil {
		return HomeDone{}, err
	}
	defer func() {
		if log != nil {
			_, cerr := log.close()
			err = errors.Join(err, cerr)
		}
	}()
	tell := func(items int) error {
		return log.record([]event.Event{{Type: event.Note, Time: time.Now(), Message: fmt.Sprintf("a worker reads what lanes have recorded: %s so far", diag.Count(items, "item"))}})
	}
	if t.Read && w.Queue != "" {
		if err := w.keep(ctx, store, t, tell); err != nil {
			return HomeDone{}, err
		}
		done := HomeDone{Queue: w.Queue}
		done.Prefix, err = log.close()
		log = nil
		return done, err
	}
	home, kept := w.take(ctx, store, t)
	if !kept {
		if home, err = w.copyOf(ctx, store, t.Run, false, tell); err != nil {
			return HomeDone{}, err
		}
	}
	defer func() { err = errors.Join(err, discard(home.Dir)) }()
	part := &engine.Part{Begin: t.Begin, Spent: t.Spent}
	git, err := w.share(ctx, shared, home, part)
	if err != nil {
		return HomeDone{}, err
	}
	if git != nil {
		git.mine, git.log, git.all = t.Life, func(int) *writer { return log }, func() []*writer { return []*writer{log} }
	}
	h := homeRun{w: w, t: t, home: home, shared: shared, log: log, measure: w.Work.Part()}
	softly, soft := context.WithCancel(context.Background())
	defer soft()
	hardly, hard := context.WithCancel(ctx)
	defer hard()
	if t.Halt == Interrupted || t.Stop {
		soft()
	}
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		if t.Halt == Interrupted || t.Halt == engine.OutOfTime {
			return // nothing is running that could be ended, and the end is to be recorded
		}
		w.watch(shared, Lease{Life: t.Life}, &session{soft: soft, hard: hard}, over)
	}()
	part.Kept, part.Sync = h.kept, log.sync
	if t.After && t.Halt != Interrupted {
		part.Halt = t.Halt
	}
	if !t.After {
		part.Map = h.atMap
	}
	sum, err := engine.Resume(hardly, t.Run, engine.Options{Store: home, Soft: softly, Part: part})
	close(over)
	<-watched
	var cerr error
	h.out.Prefix, cerr = log.close()
	log = nil
	if err = errors.Join(err, cerr); err != nil {
		return HomeDone{}, err
	}
	if err := ctx.Err(); err != nil {
		return HomeDone{}, err
	}
	h.out.Status = sum.Status
	if h.out.Moved {
		h.out.Status = event.Running
	}
	if h.out.Config != nil && w.Queue != "" {
		h.out.Queue = w.Queue
		_ = w.keep(ctx, store, t, nil) // the worker that needs a copy makes one, and reports why it cannot
	}
	return h.out, nil
}

// homeRun is a home task in progress.
type homeRun struct {
	w      *Worker
	t      HomeTask
	home   *journal.Store
	shared Shared
	log    *writer
	out    HomeDone
	// measure is called with what is recorded.
	measure func(facts []event.Event)
}

// kept writes what is recorded into the log. If only this worker leaves, the run is not
// interrupted, and that event is left out.
func (h *homeRun) kept(facts []event.Event) error {
	for _, e := range facts {
		switch {
		case e.Type == event.ItemsReady:
			if err := h.items(); err != nil {
				return fmt.Errorf("the work items: %w", err)
			}
		case e.Type == event.RunFinished && e.Status == event.Interrupted && h.w.leaving.Load() && h.w.stopped(h.shared, h.t.Life).Life != h.t.Life:
			h.out.Moved = true
			return nil
		}
	}
	facts, err := h.shared.carry(facts, filepath.Join(h.home.RunDir(h.t.Run), "logs"))
	if err != nil {
		return err
	}
	if err := h.log.record(facts); err != nil {
		return err
	}
	h.measure(facts)
	return nil
}

// items writes the work items to the store.
func (h *homeRun) items() (err error) {
	r, err := h.home.Read(h.t.Run)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	seals, err := os.ReadFile(filepath.Join(r.Dir(), sealsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return h.shared.putItems(h.t.Log, itemsOf(r), seals)
}

func itemsOf(r *journal.Reader) iter.Seq2[event.Item, error] {
	return func(yield func(event.Item, error) bool) {
		for next := 1; ; {
			list, err := r.Items(context.Background(), next, 1000)
			if err != nil {
				yield(event.Item{}, err)
				return
			}
			if len(list) == 0 {
				return
			}
			for _, it := range list {
				if !yield(it, nil) {
					return
				}
			}
			next = list[len(list)-1].Index + 1
		}
	}
}

// atMap keeps what the coordinator needs to know about the map.
func (h *homeRun) atMap(_ context.Context, m *engine.PartMap) error {
	c := configOf(m)
	h.out.Config, h.out.State, h.out.Used = &c, m.State, m.Used
	return nil
}

// HomeLeft is what remains of a home task whose worker is gone: the part of its log that
// counts, and whether this part says that a life of the run began.
type HomeLeft struct {
	Prefix
	Begun bool `json:"begun,omitempty"`
}

// AdoptHome gives what a home task has left.
func (w *Worker) AdoptHome(t HomeTask) (left HomeLeft, err error) {
	store, err := w.Open(t.Store)
	if err != nil {
		return left, err
	}
	shared := store.Run(t.Run)
	if left.Prefix, err = shared.prefixOf(t.Log); err != nil {
		return left, err
	}
	_, err = shared.readLog(t.Log, 0, left.Length, func(text []byte, _ int64) error {
		facts, err := eventsOf(text)
		for _, e := range facts {
			left.Begun = left.Begun || e.Type == event.RunStarted || e.Type == event.RunResumed
		}
		return err
	})
	return left, err
}
