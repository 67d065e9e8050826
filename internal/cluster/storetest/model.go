// Package storetest has the tests that each store of runs must pass: what its verbs
// promise ([Conform]), and that two coordinators, frozen recorders and lost databases
// lose nothing on it ([Model]).
package storetest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// The model: coordinators with their lanes, attempts that were frozen, and databases
// that are lost, on one store. Each call of the store is a step, and all
// orders of the steps are tried in which actors are interrupted so often at most. An
// actor that is interrupted and continues last is one that was frozen; one that begins
// when another was interrupted is the resume after its database was lost. The checker
// reads the bytes of the store and uses nothing of the code that wrote them.

// stepped is a store of which each call is a step.
type stepped struct {
	cluster.Objects
	step func()
}

func (s *stepped) Create(name string, write func(io.Writer) error) error {
	s.step()
	return s.Objects.Create(name, write)
}

func (s *stepped) Read(name string, from int64) (io.ReadCloser, error) {
	s.step()
	return s.Objects.Read(name, from)
}

func (s *stepped) List(folder string) ([]string, error) {
	s.step()
	return s.Objects.List(folder)
}

// steppedDirectory is one whose logs grow.
type steppedDirectory struct {
	*stepped
	cluster.Directory
}

func (s steppedDirectory) Create(name string, write func(io.Writer) error) error {
	return s.stepped.Create(name, write)
}

func (s steppedDirectory) Read(name string, from int64) (io.ReadCloser, error) {
	return s.stepped.Read(name, from)
}

func (s steppedDirectory) List(folder string) ([]string, error) { return s.stepped.List(folder) }

func (s steppedDirectory) Remove(place string) error { return s.Directory.Remove(place) }

func (s steppedDirectory) Begin(name string) (cluster.Log, error) {
	s.step()
	log, err := s.Directory.Begin(name)
	return steppedLog{log, s.step}, err
}

type steppedLog struct {
	cluster.Log
	step func()
}

func (l steppedLog) Write(b []byte) (int, error) {
	l.step()
	return l.Log.Write(b)
}

// choices enumerates: pick gives each number below n in turn, over the runs that next
// begins. With random, it gives such numbers at random, the first one mostly.
type choices struct {
	taken, of []int
	at        int
	random    *rand.Rand
}

func (c *choices) pick(n int) int {
	if c.random != nil {
		pick := 0
		if c.random.IntN(6) == 0 {
			pick = c.random.IntN(n)
		}
		c.taken = append(c.taken, pick)
		return pick
	}
	if c.at == len(c.taken) {
		c.taken, c.of = append(c.taken, 0), append(c.of, n)
	}
	c.at++
	return c.taken[c.at-1]
}

func (c *choices) next() bool {
	c.at = 0
	if c.random != nil {
		c.taken = nil
		return true
	}
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
	o      cluster.Objects
	step   *func() // what each call of the store does first
	run    string
	r      cluster.Shared
	files  func() map[string][]byte // what the run has, by name
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
	*w.step = func() { yield(struct{}{}) }
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
	*w.step = func() {}
}

var modelTime = time.Unix(1_700_000_000, 0).UTC()

// coordinator is a life of the run from its beginning to its end, or until it is told
// that a later one has begun. Its first tries to begin and to record are frozen ones
// where twice is set: what they do comes at any time.
func (w *world) coordinator(owner string, twice bool) func() {
	return func() {
		var o cluster.Order
		begin := func() (err error) { o, err = w.r.Begin(owner, modelTime); return err }
		if twice {
			w.actors = append(w.actors, func() { _, _ = w.r.Begin(owner, modelTime) }) // nobody hears of it
		}
		err := begin()
		for try := 0; err != nil && !errors.As(err, new(*cluster.SupersededError)) && try < 3; try++ {
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
				if !errors.As(err, new(*cluster.SupersededError)) {
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
func (w *world) lane(life, item int) (p cluster.Prefix, ok bool) {
	if w.r.Over(life) != nil {
		return p, false
	}
	if w.ended()[item] > 0 {
		w.says("item %d runs again in life %d", item, life)
	}
	name := cluster.LaneLog(life, item)
	log, err := cluster.BeginLog(w.o, "runs/"+w.run+"/lanes/"+name+".log")
	if err != nil {
		w.says("%v", err)
		return p, false
	}
	text, _ := json.Marshal([]event.Event{{Type: event.ItemFinished, Index: item, Status: event.Succeeded}})
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
	b = append(b, text...)
	if _, err := log.Write(b); err != nil {
		w.says("%v", err)
	}
	if err := errors.Join(log.Sync(), log.Close()); err != nil {
		w.says("%v", err)
	}
	digest := sha256.Sum256(b)
	return cluster.Prefix{Log: name, Length: int64(len(b)), Digest: hex.EncodeToString(digest[:])}, true
}

// logOf gives a log of the run: a file, or parts whose names say where they begin.
func logOf(files map[string][]byte, name string) []byte {
	name = "lanes/" + name + ".log"
	log := slices.Clone(files[name])
	for _, part := range slices.Sorted(maps.Keys(files)) {
		if at, ok := strings.CutPrefix(part, name+"/"); ok && at == fmt.Sprintf("%014d", len(log)) {
			log = append(log, files[part]...)
		}
	}
	return log
}

// ended counts how often each item has ended, as the bytes of the store say it.
func (w *world) ended() map[int]int {
	n, owners, files := map[int]int{}, map[string]int{}, w.files()
	for seq, life := 1, 0; ; seq++ {
		text, ok := files[fmt.Sprintf("order/%08d", seq)]
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
			log := logOf(files, d.Accepted.Log)[:d.Accepted.Length]
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
	files := w.files()
	for seq, want := range w.acked {
		if got := files[fmt.Sprintf("order/%08d", seq)]; len(got) < 8 || string(got[8:]) != want {
			w.says("entry %d was recorded as %s, and is %q", seq, want, got)
		}
	}
}

// Model plays them all on a store, or so many of them that are picked at random, where
// orders is not 0: those have an interruption more. interrupts is how often actors are
// interrupted at most; files gives what a run has in the store by name, as the store
// itself shows it.
func Model(t *testing.T, o cluster.Objects, interrupts, orders int, files func(run string) map[string][]byte) {
	for _, c := range []struct {
		name              string
		items, interrupts int
		actors            func(w *world) []func()
	}{
		{"a server comes back", 2, interrupts, func(w *world) []func() {
			return []func(){w.coordinator("A", false), w.coordinator("B", false)}
		}},
		{"frozen attempts", 1, max(interrupts-1, 1), func(w *world) []func() {
			return []func(){w.coordinator("A", true), w.coordinator("B", true)}
		}},
		{"three lives", 1, interrupts, func(w *world) []func() {
			return []func(){w.coordinator("A", false), w.coordinator("B", false), w.coordinator("C", false)}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, all, more := 0, choices{}, 0
			if orders > 0 {
				seed := uint64(time.Now().UnixNano())
				t.Logf("seed %d", seed)
				all.random, more = rand.New(rand.NewPCG(seed, 1)), 1
			}
			for {
				n++
				step := func() {}
				w := &world{step: &step, run: fmt.Sprintf("%s%d", strings.ReplaceAll(c.name, " ", "-"), n), items: c.items, lives: map[int]string{}, acked: map[int]string{}}
				if _, err := cluster.StoreOf("model", o).Create(cluster.Plan{Protocol: cluster.Protocol, Header: journal.Header{Run: w.run}}); err != nil {
					t.Fatal(err)
				}
				s := &stepped{o, func() { step() }}
				w.o = s
				if d, ok := o.(cluster.Directory); ok {
					w.o = steppedDirectory{s, d}
				}
				w.r = cluster.StoreOf("model", w.o).Run(w.run)
				w.files = func() map[string][]byte { return files(w.run) }
				w.play(&all, c.interrupts+more, c.actors(w)...)
				w.check()
				if len(w.wrong) > 0 {
					t.Fatalf("order %d, %v:\n%s", n, all.taken, strings.Join(w.wrong, "\n"))
				}
				if err := cluster.StoreOf("model", o).Run(w.run).Remove(); err != nil {
					t.Fatal(err)
				}
				if n == orders || !all.next() {
					break
				}
			}
			t.Logf("%d orders of steps", n)
		})
	}
}
