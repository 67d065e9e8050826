package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// The model: coordinators with their lanes, attempts that were frozen, and databases
// that are lost, on one store in memory. Each call of the store is a step, and all
// orders of the steps are tried in which actors are interrupted so often at most. An
// actor that is interrupted and continues last is one that was frozen; one that begins
// when another was interrupted is the resume after its database was lost. The checker
// reads the bytes of the store and uses nothing of the code that wrote them.

// memory is a store; step is called before each verb.
type memory struct {
	files map[string][]byte
	step  func()
}

func (m *memory) found(place string, _ []string, name string, text []byte) error {
	m.files[path.Join(place, name)] = text
	return nil
}

func (m *memory) create(name string, write func(io.Writer) error) error {
	m.step()
	if _, ok := m.files[name]; ok {
		return fs.ErrExist
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	m.files[name] = b.Bytes()
	return nil
}

func (m *memory) read(name string, from int64) (io.ReadCloser, error) {
	m.step()
	text, ok := m.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(text[min(from, int64(len(text))):])), nil
}

func (m *memory) list(folder string) (names []string, err error) {
	m.step()
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		if path.Dir(name) == folder {
			names = append(names, path.Base(name))
		}
	}
	return names, nil
}

type memoryLog struct {
	*memory
	name string
}

func (m *memory) begin(name string) (growing, error) {
	return memoryLog{m, name}, m.create(name, func(io.Writer) error { return nil })
}

func (l memoryLog) Write(b []byte) (int, error) {
	l.step()
	l.files[l.name] = append(l.files[l.name], b...)
	return len(b), nil
}

func (memoryLog) Sync() error  { return nil }
func (memoryLog) Close() error { return nil }

func (m *memory) remove(string) error     { return nil }
func (m *memory) path(name string) string { return name }

// choices enumerates: pick gives each number below n in turn, over the runs that next
// begins.
type choices struct {
	taken, of []int
	at        int
}

func (c *choices) pick(n int) int {
	if c.at == len(c.taken) {
		c.taken, c.of = append(c.taken, 0), append(c.of, n)
	}
	c.at++
	return c.taken[c.at-1]
}

func (c *choices) next() bool {
	c.at = 0
	for i := len(c.taken) - 1; i >= 0; i-- {
		if c.taken[i]++; c.taken[i] < c.of[i] {
			return true
		}
		c.taken, c.of = c.taken[:i], c.of[:i]
	}
	return false
}

// world is one order of steps on its way.
type world struct {
	m      *memory
	r      Shared
	items  int
	actors []func() // those that have not begun yet
	lives  map[int]string
	acked  map[int]string // entries that a coordinator was told to be recorded
	wrong  []string
}

func (w *world) says(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// play runs the actors, which are interrupted so often at most.
func (w *world) play(c *choices, interrupts int, actors ...func()) {
	var yield func(struct{}) bool
	w.m.step = func() { yield(struct{}{}) }
	type running struct {
		step func() (struct{}, bool)
		mine func(struct{}) bool
	}
	w.actors = actors
	var all []*running
	now := 0
	for {
		for _, a := range w.actors {
			r := &running{}
			r.step, _ = iter.Pull(func(y func(struct{}) bool) { r.mine = y; y(struct{}{}); a() })
			r.step()
			all = append(all, r)
		}
		w.actors = nil
		if len(all) == 0 {
			break
		}
		pick := 0
		if now < 0 {
			pick = c.pick(len(all)) // one has ended
			now = pick
		} else if interrupts > 0 {
			if pick = c.pick(len(all)); pick != 0 {
				interrupts--
				now = (now + pick) % len(all)
			}
		}
		yield = all[now].mine
		if _, ok := all[now].step(); !ok {
			all = slices.Delete(all, now, now+1)
			now = -1
		}
	}
	w.m.step = func() {}
}

var modelTime = time.Unix(1_700_000_000, 0).UTC()

// coordinator is a life of the run from its beginning to its end, or until it is told
// that a later one has begun. Its first tries to begin and to record are frozen ones
// where twice is set: what they do comes at any time.
func (w *world) coordinator(owner string, twice bool) func() {
	return func() {
		var o Order
		begin := func() (err error) { o, err = w.r.Begin(owner, modelTime); return err }
		if twice {
			w.actors = append(w.actors, func() { _, _ = w.r.Begin(owner, modelTime) }) // nobody hears of it
		}
		err := begin()
		for try := 0; err != nil && !errors.As(err, new(*SupersededError)) && try < 3; try++ {
			err = begin()
		}
		if err != nil {
			return
		}
		if was, ok := w.lives[o.Life]; ok && was != owner {
			w.says("%s and %s have both begun life %d", was, owner, o.Life)
		}
		w.lives[o.Life] = owner
		for item := 1; item <= w.items; item++ {
			if w.ended()[item] > 0 {
				continue
			}
			p, ok := w.lane(o.Life, item)
			if !ok {
				return
			}
			o.Accept(p, modelTime)
			e, _ := o.Next()
			if twice {
				w.actors = append(w.actors, func() { _ = w.r.Record(e) })
			}
			if err := w.r.Record(e); err != nil {
				if !errors.As(err, new(*SupersededError)) {
					w.says("%s records: %v", owner, err)
				}
				return
			}
			text, _ := json.Marshal(e)
			w.acked[e.Seq] = string(text)
			o.Recorded()
		}
	}
}

// lane runs an item, and writes its end; ok is false where its life is over.
func (w *world) lane(life, item int) (p Prefix, ok bool) {
	if w.r.over(life) != nil {
		return p, false
	}
	if w.ended()[item] > 0 {
		w.says("item %d runs again in life %d", item, life)
	}
	name := LaneLog(life, item)
	log, err := w.r.o.begin(w.r.log(name))
	if err != nil {
		w.says("%v", err)
		return p, false
	}
	text, _ := json.Marshal([]event.Event{{Type: event.ItemFinished, Index: item, Status: event.Succeeded}})
	b := appendFrame(nil, text)
	if _, err := log.Write(b); err != nil {
		w.says("%v", err)
	}
	digest := sha256.Sum256(b)
	return Prefix{name, int64(len(b)), hex.EncodeToString(digest[:])}, true
}

// ended counts how often each item has ended, as the bytes of the store say it.
func (w *world) ended() map[int]int {
	n, owners := map[int]int{}, map[string]int{}
	for seq, life := 1, 0; ; seq++ {
		text, ok := w.m.files[fmt.Sprintf("runs/r/order/%08d", seq)]
		if !ok {
			break
		}
		var e struct {
			Life      int
			Begins    string
			Decisions []struct {
				Accepted *struct {
					Log    string
					Length int
				}
			}
		}
		if err := json.Unmarshal(text[8:], &e); err != nil || e.Life < life {
			w.says("entry %d: %s, of life %d after %d", seq, text, e.Life, life)
		}
		if was := owners[e.Begins]; was > 0 && e.Begins != "" {
			w.says("%s begins life %d and life %d", e.Begins, was, e.Life)
		}
		life, owners[e.Begins] = e.Life, e.Life
		for _, d := range e.Decisions {
			if d.Accepted == nil {
				continue
			}
			log := w.m.files["runs/r/lanes/"+d.Accepted.Log+".log"][:d.Accepted.Length]
			for len(log) > 0 {
				size := 8 + int(binary.LittleEndian.Uint32(log))
				var facts []struct{ Index int }
				if err := json.Unmarshal(log[8:size], &facts); err != nil {
					w.says("%s: %v", d.Accepted.Log, err)
				}
				n[facts[0].Index]++
				log = log[size:]
			}
		}
	}
	return n
}

// check looks at a store when all have ended, and a last resume has too.
func (w *world) check() {
	w.coordinator("the last", false)()
	for item, n := range w.ended() {
		if n != 1 {
			w.says("item %d has ended %d times", item, n)
		}
	}
	if n := len(w.ended()); n != w.items {
		w.says("%d items have ended, of %d", n, w.items)
	}
	for seq, want := range w.acked {
		if got := w.m.files[fmt.Sprintf("runs/r/order/%08d", seq)]; len(got) < 8 || string(got[8:]) != want {
			w.says("entry %d was recorded as %s, and is %q", seq, want, got)
		}
	}
}

// TestOrderModel plays them all.
func TestOrderModel(t *testing.T) {
	t.Parallel()
	more := 0
	if os.Getenv("BIDE_CLUSTER") == "long" {
		more = 1
	}
	for name, c := range map[string]struct {
		items, interrupts int
		actors            func(w *world) []func()
	}{
		"a server comes back": {2, 2 + more, func(w *world) []func() {
			return []func(){w.coordinator("A", false), w.coordinator("B", false)}
		}},
		"frozen attempts": {1, 1 + more, func(w *world) []func() {
			return []func(){w.coordinator("A", true), w.coordinator("B", true)}
		}},
		"three lives": {1, 2 + more, func(w *world) []func() {
			return []func(){w.coordinator("A", false), w.coordinator("B", false), w.coordinator("C", false)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 0
			for all := (choices{}); ; {
				m := &memory{files: map[string][]byte{}}
				w := &world{m: m, r: Store{m}.Run("r"), items: c.items, lives: map[int]string{}, acked: map[int]string{}}
				w.play(&all, c.interrupts, c.actors(w)...)
				w.check()
				if n++; len(w.wrong) > 0 {
					t.Fatalf("order %d, %v:\n%s", n, all.taken, strings.Join(w.wrong, "\n"))
				}
				if !all.next() {
					break
				}
			}
			t.Logf("%d orders of steps", n)
		})
	}
}
