package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// SupersededError says that a life of a run is over, because a later one has begun.
type SupersededError struct {
	Run      string
	Life, By int
}

func (e *SupersededError) Error() string {
	return fmt.Sprintf("life %d of run %s is over: life %d has begun elsewhere, and only that one is recorded now", e.Life, e.Run, e.By)
}

func entryName(seq int) string { return fmt.Sprintf("%08d", seq) }

// entry reads an entry of the order; fs.ErrNotExist if there is none.
func (r Shared) entry(seq int) (e Entry, err error) {
	text, err := r.get("order", entryName(seq))
	if err != nil {
		return e, err
	}
	frame, size := frameOf(text)
	if size == 0 || size != len(text) {
		err = errors.New("it is not what was written")
	} else {
		err = json.Unmarshal(frame, &e)
	}
	if err == nil && e.Seq != seq {
		err = fmt.Errorf("it says that it is entry %d", e.Seq)
	}
	if err != nil {
		err = &DamagedError{Name: r.name("order", entryName(seq)), Why: err}
	}
	return e, err
}

// DamagedError says that an object of a store is not what was written.
type DamagedError struct {
	Name string
	Why  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s in the store is damaged: %v", e.Name, e.Why)
}
func (e *DamagedError) Unwrap() error { return e.Why }

// Record adds an entry to the order. It may be called again, by several at once and at any
// later time: afterwards the entry is there once, or a later life has begun.
func (r Shared) Record(e Entry) error {
	if e.Seq > 1 {
		f, err := r.o.Read(r.name("order", entryName(e.Seq-1)), 0)
		if err == nil {
			err = f.Close()
		} else if errors.Is(err, fs.ErrNotExist) && r.has("plan.json") { // otherwise all of the run is gone
			err = fmt.Errorf("entry %d of the order of run %s is to be recorded, and the store does not have entry %d: is it an older copy?", e.Seq, r.run, e.Seq-1)
		}
		if err != nil {
			return err
		}
	}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	err = r.put(appendFrame(nil, text), "order", entryName(e.Seq))
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	have, err := r.entry(e.Seq)
	if err != nil {
		return err
	}
	if have.Life > e.Life {
		return &SupersededError{r.run, e.Life, have.Life}
	}
	if same, err := json.Marshal(have); err != nil || !bytes.Equal(same, text) {
		return errors.Join(fmt.Errorf("the order of run %s has another entry %d, of life %d", r.run, e.Seq, have.Life), err)
	}
	return nil
}

// entries reads the entries of the order that follow an entry.
func (r Shared) entries(after int, each func(e Entry) error) error {
	for life, seq := 0, after+1; ; seq++ {
		e, err := r.entry(seq)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && e.Life < life {
			err = fmt.Errorf("entry %d of the order of run %s is of life %d, and follows one of life %d", seq, r.run, e.Life, life)
		}
		if err == nil {
			life, err = e.Life, each(e)
		}
		if err != nil {
			return err
		}
	}
}

// Begin begins a life of a run for its owner, and gives the state from which its
// coordinator continues. If the owner has begun a life already, it gives that one.
func (r Shared) Begin(owner string, now time.Time) (Order, error) {
	o := Order{}
	mine := 0
	accepted := map[string]bool{}
	err := r.entries(0, func(e Entry) error {
		o.Seq, o.Life = e.Seq, e.Life
		if e.Begins == owner {
			mine = e.Life
		}
		for _, d := range e.Decisions {
			if d.Accepted != nil {
				accepted[d.Accepted.Log] = true
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return o, err
	case mine > 0 && mine < o.Life:
		return o, &SupersededError{r.run, mine, o.Life}
	case mine == 0:
		next := Entry{Seq: o.Seq + 1, Life: o.Life + 1, Begins: owner}
		if next.Decisions, err = r.left(o.Life, accepted, now); err != nil {
			return o, err
		}
		if err := r.Record(next); err != nil {
			return o, err // somebody has added to the order meanwhile
		}
		o.Seq, o.Life = next.Seq, next.Life
	}
	for life := 2; life <= o.Life; life++ { // earlier calls may have been cut short here
		if err := r.mark("lives", fmt.Sprint(life)); err != nil {
			return o, err
		}
	}
	return o, r.endGit(gitEntry{Life: o.Life, Kind: gitLife})
}

// Tell adds facts to a run that has ended, in a life of their own.
func (r Shared) Tell(owner string, now time.Time, facts ...event.Event) error {
	o, err := r.Begin(owner, now)
	if err != nil {
		return err
	}
	o.Tell(now, facts...)
	e, _ := o.Next()
	return r.Record(e)
}

// left accepts what logs of a life have and the order has not accepted.
func (r Shared) left(life int, accepted map[string]bool, now time.Time) (list []Decision, err error) {
	logs, err := r.logs()
	if err != nil {
		return nil, err
	}
	for _, l := range logs {
		name := l.String()
		if l.life != life || accepted[name] {
			continue
		}
		p, err := r.prefixOf(name)
		if err != nil {
			return nil, err
		}
		list = append(list, Decision{Time: now, Accepted: &p})
	}
	return slices.Clip(list), nil
}

// Over reports whether a life of the run is over, because a later one has begun.
func (r Shared) Over(life int) error {
	if r.has("lives", fmt.Sprint(life+1)) {
		return &SupersededError{r.run, life, life + 1}
	}
	return nil
}
