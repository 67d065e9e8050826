package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// Report is the result of verifying a run in a store.
type Report struct {
	Run     string   `json:"run"`
	Entries int      `json:"entries"` // of the order
	Logs    int      `json:"logs"`    // logs of which something was accepted
	Damaged []Damage `json:"damaged"`
}

// Damage is an object that is not what was written.
type Damage struct {
	Name string `json:"name"`
	Why  string `json:"why"`
	// Keep is the part of a log before the damage; nil for what is no log and cannot be
	// repaired.
	Keep *Prefix `json:"keep,omitempty"`
	Had  int64   `json:"had,omitempty"` // the length of the log that was accepted
}

// Verify reads all of a run that counts, and compares it with what was recorded of it.
func (r Shared) Verify() (Report, error) {
	rep := Report{Run: r.run, Damaged: []Damage{}}
	tell := func(err error) error {
		if d := (*DamagedError)(nil); errors.As(err, &d) {
			rep.Damaged = append(rep.Damaged, Damage{Name: d.Name, Why: d.Why.Error()})
			return nil
		}
		return err
	}
	if _, err := r.Plan(); err != nil {
		return rep, err
	}
	repaired, err := r.repaired()
	if err != nil {
		return rep, tell(err)
	}
	sound := map[string]bool{}
	err = r.entries(0, func(e Entry) error {
		rep.Entries = e.Seq
		for _, d := range e.Decisions {
			if d.Accepted == nil {
				continue
			}
			rep.Logs++
			p := *d.Accepted
			if now, ok := repaired[p.Log]; ok {
				p = now
			}
			why := r.same(p)
			if why == nil {
				d, err := r.damagedOutput(p, sound)
				if err != nil {
					return err
				}
				if d != nil {
					rep.Damaged = append(rep.Damaged, *d)
				}
				continue
			}
			keep, err := r.prefixOf(p.Log)
			if err != nil {
				return err
			}
			if keep.Length >= p.Length { // its frames are whole, but are not those that were accepted
				if keep, err = r.cut(p.Log, 0); err != nil {
					return err
				}
			}
			rep.Damaged = append(rep.Damaged, Damage{r.log(p.Log), why.Error(), &keep, p.Length})
		}
		return nil
	})
	if err = tell(err); err != nil {
		return rep, err
	}
	if err = tell(r.verifyGit()); err != nil {
		return rep, err
	}
	lists, err := r.o.List(r.name("items"))
	for _, name := range lists {
		log, is := strings.CutSuffix(name, itemsEnd)
		if !is {
			continue
		}
		for _, err := range r.getItems(log) {
			if err != nil {
				rep.Damaged = append(rep.Damaged, Damage{Name: r.name("items", name), Why: err.Error()})
				break
			}
		}
	}
	return rep, err
}

// damagedOutput gives the first damaged output among those that a log names; nil if none
// is. The attempt that wrote it counts as not run, and so does what the log has after it.
// sound are outputs that were read already.
func (r Shared) damagedOutput(p Prefix, sound map[string]bool) (*Damage, error) {
	var found *Damage
	err := r.outputsOf(p, func(object string, at int64) error {
		if found != nil || sound[object] {
			return nil
		}
		err := r.isOutput(object, nil)
		sound[object] = err == nil
		d := (*DamagedError)(nil)
		if !errors.As(err, &d) {
			return err
		}
		keep, err := r.cut(p.Log, at)
		found = &Damage{d.Name, d.Why.Error() + ", and the log " + p.Log + " names it", &keep, p.Length}
		return err
	})
	return found, err
}

// same compares a log with what was accepted of it.
func (r Shared) same(p Prefix) error {
	digest, err := r.digestOf(p.Log, p.Length)
	if err == nil && digest != p.Digest {
		err = fmt.Errorf("the log %s is not what was accepted of it", p.Log)
	}
	return err
}

func (r Shared) cut(log string, length int64) (Prefix, error) {
	digest, err := r.digestOf(log, length)
	return Prefix{log, length, digest}, err
}

// repaired gives the logs of which less counts than was accepted, because they were
// damaged.
func (r Shared) repaired() (map[string]Prefix, error) {
	if !r.has(repairedMark) {
		return nil, nil
	}
	list := map[string]Prefix{}
	err := r.entries(0, func(e Entry) error {
		for _, d := range e.Decisions {
			if d.Repaired != nil {
				list[d.Repaired.Log] = *d.Repaired
			}
		}
		return nil
	})
	return list, err
}

// repairedMark exists before the first entry that repairs something.
const repairedMark = "repaired"

// Repair makes only the part before the damage count, in each damaged log. What follows the
// damage counts as not run, and the next life of the run runs it. Repair begins its own
// life, because a coordinator that knows of more must not continue. It removes nothing.
func (r Shared) Repair(ctx context.Context, owner string, now time.Time) (Report, error) {
	rep, err := r.Verify()
	if err != nil || len(rep.Damaged) == 0 {
		return rep, err
	}
	repaired, err := r.repaired()
	if err != nil {
		return rep, err
	}
	if repaired == nil {
		repaired = map[string]Prefix{}
	}
	for _, d := range rep.Damaged {
		if d.Keep == nil {
			return rep, fmt.Errorf("%s is damaged, and only logs can be repaired: %s; put it back from a backup of the store", d.Name, d.Why)
		}
		repaired[d.Keep.Log] = *d.Keep
	}
	if err := r.try(ctx, repaired); err != nil {
		return rep, fmt.Errorf("run %s cannot be repaired, as what is left cannot be read: %w; put the damaged logs back from a backup of the store", r.run, err)
	}
	if err := r.mark(repairedMark); err != nil {
		return rep, err
	}
	o, err := r.Begin(owner, now)
	if err != nil {
		return rep, err
	}
	for _, d := range rep.Damaged {
		o.add(Decision{Time: now, Repaired: d.Keep})
	}
	o.Tell(now, event.Event{Type: event.RunFinished, Time: now, Status: event.Interrupted, Class: "cancelled",
		Message: fmt.Sprintf("the store was damaged: what is behind the damage of %s does not count any more", diag.Count(len(rep.Damaged), "log"))})
	e, _ := o.Next()
	return rep, r.Record(e)
}

// try folds the run as it would be after a repair, to see whether it can be read.
func (r Shared) try(ctx context.Context, repaired map[string]Prefix) (err error) {
	plan, err := r.Plan()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bide-repair-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	home, err := journal.OpenStore(dir)
	if err != nil {
		return err
	}
	j, err := Make(home, r.store, plan)
	if err != nil {
		return err
	}
	f := fold{shared: r, j: j, repaired: repaired}
	return errors.Join(f.all(ctx), j.Close())
}
