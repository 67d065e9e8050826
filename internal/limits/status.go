package limits

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Status is how a limit is now.
type Status struct {
	Limit
	Held    []Who // those that have its slots
	Waiting []Who // those that wait for it, in the order in which they go; of those of one process that want several limits, the first
	State
}

// Status gives the limits of the file, in the order of their names, as they are now.
func (h *Home) Status() (list []Status, err error) {
	c, err := Read(h.dir)
	if err != nil {
		return nil, err
	}
	for _, name := range c.Names() {
		s := Status{Limit: c.Limits[name]}
		if _, err := os.Stat(filepath.Join(h.dir, "limits", name)); err == nil { // else nobody has used it
			if err := h.look(&s); err != nil {
				return nil, err
			}
		}
		list = append(list, s)
	}
	return list, nil
}

// look reads who holds a limit and who waits for it.
func (h *Home) look(s *Status) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	x, err := h.open(s.Name)
	if err != nil {
		return err
	}
	return x.locked(func() error {
		s.State = *x.readState()
		err := x.each(func(_ int, f *os.File, free bool) error {
			if !free {
				s.Held = append(s.Held, readWho(f))
			}
			return nil
		})
		if err != nil {
			return err
		}
		return x.waiting("", time.Time{}, func(_ string, f *os.File) { s.Waiting = append(s.Waiting, readWho(f)) })
	})
}

// Paused says whether all wait at a time because one was told to.
func (s *Status) Paused(now time.Time) bool { return s.Shared && now.Before(s.PausedUntil) }

// Blocks says what a run waits for at a time: nil where it waits for none of the
// limits. It is for those who look at a run from outside.
func Blocks(list []Status, run string, now time.Time) (blocks []*Block) {
	for _, s := range list {
		for _, w := range s.Waiting {
			if w.Run != run {
				continue
			}
			b := s.State.Ask(s.Limit, now, len(s.Held), 0)
			if b == nil {
				b = &Block{Limit: s.Name, Full: s.Slots > 0, Rated: s.Slots == 0, Until: s.Next, Slots: s.Slots, Held: len(s.Held)}
			}
			for _, w := range s.Held {
				b.hold(w)
			}
			blocks = append(blocks, b)
			break
		}
	}
	return blocks
}

// hold notes who has a slot.
func (b *Block) hold(w Who) {
	if !b.Full || w.PID == 0 {
		return
	}
	for _, by := range b.By {
		if by == w.short() {
			return
		}
	}
	b.By = append(b.By, w.short())
}

// Snapshot gives the limits of a home directory as they are now.
func Snapshot(dir string) ([]Status, error) {
	h := Open(dir, nil)
	list, err := h.Status()
	return list, errors.Join(err, h.Close())
}

// Waits says in words what a run waits for now on this machine, in a line for each
// limit; nothing where no limit is kept there.
func Waits(dir, run string, now time.Time) (lines []string, err error) {
	if _, err := os.Stat(filepath.Join(dir, "limits")); err != nil {
		return nil, nil // nobody has ever used one
	}
	list, err := Snapshot(dir)
	for _, b := range Blocks(list, run, now) {
		lines = append(lines, b.String())
	}
	return lines, err
}
