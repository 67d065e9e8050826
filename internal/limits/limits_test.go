package limits

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/clock"
)

// TestMain is, in the processes that tests start, one that uses a limit.
func TestMain(m *testing.M) {
	if home := os.Getenv("LIMITS_TEST_HOME"); home != "" {
		other(home)
		return
	}
	os.Exit(m.Run())
}

func write(t *testing.T, home, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(home, FileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReadsTheFile(t *testing.T) {
	home := t.TempDir()
	write(t, home, "limits:\n  anthropic: {slots: 6, rate: 50/1m, pause: shared}\n  gpu: {slots: 1, queue: fifo}\n  mail: {rate: 2/s}\n")
	c, err := Read(home)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(c.Names())
	for _, name := range c.Names() {
		l := c.Limits[name]
		got += fmt.Sprintf(" %s:%d %d/%v %v", l.Pos.String()[len(home)+1:], l.Slots, l.Rate, l.Per, l.Shared)
	}
	want := "[anthropic gpu mail] limits.yml:2:3:6 50/1m0s true limits.yml:3:3:1 0/0s false limits.yml:4:3:0 2/1s false"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSaysWhatIsWrongWithTheFile(t *testing.T) {
	for text, want := range map[string]string{
		"limits:\n  a: {slots: 0}":             `:2:14: error: slots is "0"; it must be a whole number from 1 to 128`,
		"limits:\n  a: {slots: 500}":           `:2:14: error: slots is "500"; it must be a whole number from 1 to 128`,
		"limits:\n  a: {rate: many}":           `:2:13: error: rate: "many" is no rate`,
		"limits:\n  a: {rate: 0/1m}":           `:2:13: error: rate: "0/1m" begins with 0`,
		"limits:\n  a: {slot: 1}":              `:2:7: error: unknown key "slot"`,
		"limits:\n  a: {}":                     `:2:3: error: the limit "a" bounds nothing`,
		"limits:\n  a: {slots: 1, pause: own}": `:2:24: error: pause is "own"; the only value is shared`,
		"limits:\n  a/b: {slots: 1}":           `:2:3: error: a limit cannot be called "a/b"`,
		"limits:\n  a: {slots: 1}\n  a: {}":    `:3:3: error: the key "a" is here for the second time`,
		"limit:\n  a: {slots: 1}":              `:1:1: error: unknown key "limit"`,
		"limits: 3":                            `:1:9: error: limits must be a map`,
		"limits: [":                            `error: this is not YAML`,
	} {
		home := t.TempDir()
		write(t, home, text)
		if _, err := Read(home); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}

func TestAStateDecides(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l := Limit{Name: "x", Slots: 2, Rate: 50, Per: time.Minute, Shared: true}
	s := &State{}
	if b := s.Ask(l, at, 0, 0); b != nil {
		t.Fatalf("a new limit refuses: %v", b)
	}
	s.Begin(l, at)
	if b := s.Ask(l, at, 1, 0); b == nil || !b.Rated || b.Until.Sub(at) != 1224*time.Millisecond {
		t.Errorf("the second of 50 in a minute: %+v", b)
	}
	at = at.Add(2 * time.Second)
	if b := s.Ask(l, at, 2, 0); b == nil || !b.Full {
		t.Errorf("with both slots held: %+v", b)
	}
	if b := s.Ask(l, at, 1, 1); b == nil || !b.Full {
		t.Errorf("with one slot free and one that has waited longer: %+v", b)
	}
	if b := s.Ask(l, at, 1, 0); b != nil {
		t.Errorf("with one slot free: %+v", b)
	}
	// A clock that was set back by a day blocks no longer than one part of the period.
	back := at.Add(-24 * time.Hour)
	if b := s.Ask(l, back, 0, 0); b == nil || b.Until.Sub(back) > time.Minute/50*102/100 {
		t.Errorf("after the clock was set back: %+v", b)
	}
	s.Pause(at.Add(time.Hour), "01M8", "resets 3am")
	if s.Pause(at.Add(time.Minute), "01M9", "") {
		t.Error("a shorter pause has taken the place of a longer one")
	}
	if b := s.Ask(l, at, 0, 0); b == nil || !b.Paused || !b.Until.Equal(at.Add(time.Hour)) || !strings.Contains(b.String(), "run 01M8") {
		t.Errorf("paused: %v", b)
	}
	l.Shared = false
	if b := s.Ask(l, at, 0, 0); b != nil {
		t.Errorf("a limit whose pause is not shared is paused: %v", b)
	}
}

// late is a clock that is ahead.
type late struct{ clock.Machine }

func (late) Now() time.Time { return time.Now().Add(time.Second) }

// TestTheOrderOfALineIsThatOfItsTickets: of two that begin to wait at once in one process, the
// one whose time is later may come to the line first. Neither waits for the other.
func TestTheOrderOfALineIsThatOfItsTickets(t *testing.T) {
	home := t.TempDir()
	write(t, home, "limits:\n  a: {slots: 1}\n")
	h := Open(home, nil)
	defer h.Close()
	holding, err := h.Take(t.Context(), request("a"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), stale*4/5) // then the others heed a ticket no longer
	defer cancel()
	took := make(chan error, 2)
	begin := func(r Request) {
		waits := make(chan struct{})
		var once sync.Once
		r.Waits = func(*Block) { once.Do(func() { close(waits) }) }
		go func() {
			got, err := h.Take(ctx, r)
			if err == nil {
				got.Release()
			}
			took <- err
		}()
		<-waits
	}
	first := request("a")
	first.Clock = late{}
	begin(first)
	begin(request("a"))
	for placed := 0; placed < 2; { // both are in the queue
		list, err := os.ReadDir(filepath.Join(home, "limits", "a", "waiting"))
		if err != nil {
			t.Fatal(err)
		}
		placed = len(list)
	}
	holding.Release()
	for range 2 {
		if err := <-took; err != nil {
			t.Error(err)
		}
	}
}

// TestAPauseIsLifted: when somebody lifts a pause, nobody waits for it, here and in other
// processes, and it is forgotten. A limit whose pauses are no longer shared forgets it too.
func TestAPauseIsLifted(t *testing.T) {
	home := t.TempDir()
	write(t, home, "limits:\n  prov: {slots: 2, pause: shared}\n  other: {slots: 1}\n")
	h, elsewhere := Open(home, nil), Open(home, nil)
	defer h.Close()
	defer elsewhere.Close()
	paused := func() bool {
		t.Helper()
		list, err := elsewhere.Status()
		if err != nil {
			t.Fatal(err)
		}
		return !list[1].PausedUntil.IsZero()
	}
	pause := func() {
		t.Helper()
		if err := h.Pause([]string{"prov", "other"}, time.Now().Add(5*time.Hour), "01M8", "weekly limit"); err != nil || !paused() {
			t.Fatal(paused(), err)
		}
	}
	pause()
	if lifted, err := elsewhere.Lift([]string{"other", "prov"}, time.Now()); err != nil || fmt.Sprint(lifted) != "[prov]" || paused() {
		t.Errorf("lifted %v, %v; it is paused: %v", lifted, err, paused())
	}
	if lifted, err := elsewhere.Lift([]string{"other", "prov"}, time.Now()); err != nil || lifted != nil {
		t.Errorf("lifted again: %v, %v", lifted, err)
	}
	pause()
	for _, setting := range []string{"pause=", "pause=shared"} {
		if err := Set(home, "prov", []string{setting}); err != nil {
			t.Fatal(err)
		}
	}
	if paused() {
		t.Error("the old pause is back")
	}
}

// In any period no more begin than the rate says, whatever the moments at which
// somebody asks; and as many as it says, where each begins somewhat late.
func TestARateHoldsInEveryPeriod(t *testing.T) {
	for _, late := range []float64{0, 0.1, 0.2, 0.9} { // of the time between two
		rateHolds(t, late)
	}
}

func rateHolds(t *testing.T, late float64) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for _, l := range []Limit{{Rate: 50, Per: time.Minute}, {Rate: 1, Per: time.Second}, {Rate: 1000, Per: time.Second}, {Rate: 3, Per: time.Hour}} {
		s, now := &State{}, time.Unix(1_700_000_000, 0)
		first := now
		var began []time.Time
		for len(began) < 3*l.Rate+3 {
			if b := s.Ask(l, now, 0, 0); b != nil {
				now = b.Until.Add(time.Duration(late * r.Float64() * float64(l.interval())))
				continue
			}
			s.Begin(l, now)
			began = append(began, now)
			if len(began) == l.Rate { // a rest in the middle saves nothing up
				now = now.Add(5 * l.Per)
				first = now
			}
		}
		for i := range began {
			n := 0
			for _, at := range began[i:] {
				if at.Sub(began[i]) < l.Per {
					n++
				}
			}
			if n > l.Rate {
				t.Fatalf("%d in %v, late by %v: %d began within one period", l.Rate, l.Per, late, n)
			}
		}
		took := began[len(began)-1].Sub(first)
		if best := l.Per * time.Duration(len(began)-l.Rate-1) / time.Duration(l.Rate); float64(best) < 0.95*float64(took) && (late == 0 || late <= 0.2 && l.Rate >= 50) {
			t.Errorf("%d in %v, late by "+fmt.Sprint(late)+": %v for what could take %v", l.Rate, l.Per, took, best)
		}
	}
}

func request(names ...string) Request {
	return Request{Names: names, Clock: clock.Machine{}, Who: Who{Run: "r"}}
}

func TestSlotsBoundAndAreTakenInTheOrderOfWaiting(t *testing.T) {
	home := t.TempDir()
	write(t, home, "limits: {a: {slots: 1}, b: {slots: 2}}")
	one, two := Open(home, nil), Open(home, nil) // as two processes have it
	defer one.Close()
	defer two.Close()
	ctx := t.Context()
	l, err := one.Take(ctx, request("a"))
	if err != nil {
		t.Fatal(err)
	}
	var order []int
	var mu sync.Mutex
	var done sync.WaitGroup
	for i := range 6 {
		h := one
		if i%2 == 1 {
			h = two
		}
		waits := make(chan struct{}, 10)
		done.Go(func() {
			r := request("a")
			r.Waits = func(*Block) { waits <- struct{}{} }
			l, err := h.Take(ctx, r)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			left := 6 - len(order)
			mu.Unlock()
			for places := 0; places < min(left, 2)+1; runtime.Gosched() { // who is next in its process has a place in the queue of all, as who wants both has
				list, err := os.ReadDir(filepath.Join(home, "limits", "a", "waiting"))
				if err != nil {
					t.Error(err)
					break
				}
				places = len(list)
			}
			l.Release()
		})
		<-waits
	}
	// Who wants both holds neither meanwhile.
	waits := make(chan struct{}, 10)
	done.Go(func() {
		r := request("b", "a")
		r.Waits = func(*Block) { waits <- struct{}{} }
		l, err := two.Take(ctx, r)
		if err != nil {
			t.Error(err)
			return
		}
		l.Release()
	})
	<-waits
	for range 2 {
		l, err := one.Take(ctx, request("b"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		if s := status(t, one, "b"); len(s.Held) > 2 {
			t.Errorf("%d slots of b are held", len(s.Held))
		}
		if len(status(t, one, "b").Held) == 2 {
			l.Release()
		}
	}
	l.Release()
	done.Wait()
	if got := fmt.Sprint(order); got != "[0 1 2 3 4 5]" {
		t.Errorf("they went in the order %s", got)
	}
	if s := status(t, one, "a"); len(s.Held)+len(s.Waiting) != 0 {
		t.Errorf("at the end: %+v", s)
	}
}

func status(t *testing.T, h *Home, name string) Status {
	t.Helper()
	list, err := h.Status()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no limit %s", name)
	return Status{}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	home := t.TempDir()
	write(t, home, "limits: {a: {slots: 1}}")
	h := Open(home, nil)
	defer h.Close()
	l, err := h.Take(t.Context(), request("a"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := request("a")
	r.Waits = func(b *Block) {
		if got := b.String(); got != "a: 1 of 1 held by r" {
			t.Errorf("it waits for %q", got)
		}
		cancel()
	}
	if _, err := h.Take(ctx, r); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if s := status(t, h, "a"); len(s.Waiting) != 0 {
		t.Errorf("who gave up still waits: %+v", s)
	}
	l.Release()
	if l, err = h.Take(t.Context(), request("a")); err != nil {
		t.Fatal(err)
	}
	l.Release()
}

func TestAnUnknownLimitSaysWhatToWrite(t *testing.T) {
	home := t.TempDir()
	h := Open(home, nil)
	defer h.Close()
	_, err := h.Take(t.Context(), request("gpu"))
	if err == nil || !strings.Contains(err.Error(), `there is no limit "gpu" in `+filepath.Join(home, FileName)+`; add under limits: gpu: {slots: 4}`) {
		t.Error(err)
	}
}

func TestAChangeOfTheFileHoldsForThoseWhoWait(t *testing.T) {
	home := t.TempDir()
	write(t, home, "limits: {a: {slots: 1}}")
	h := Open(home, nil)
	defer h.Close()
	l, err := h.Take(t.Context(), request("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	r := request("a")
	var once sync.Once
	r.Waits = func(*Block) { once.Do(func() { write(t, home, "limits: {a: {slots: 21}}") }) }
	more, err := h.Take(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	more.Release()
}

func TestAPauseOfOneHoldsBackTheOther(t *testing.T) {
	home := t.TempDir()
	write(t, home, "limits: {a: {slots: 9, pause: shared}, b: {slots: 9}}")
	one, two := Open(home, nil), Open(home, nil)
	defer one.Close()
	defer two.Close()
	until := time.Now().Add(300 * time.Millisecond)
	if err := one.Pause([]string{"a", "b"}, until, "01M8", "429: come back later"); err != nil {
		t.Fatal(err)
	}
	l, err := two.Take(t.Context(), request("b"))
	if err != nil || time.Now().After(until) {
		t.Fatalf("b is not shared, and waited: %v", err)
	}
	l.Release()
	said := ""
	r := request("a")
	r.Waits = func(b *Block) { said = b.String() }
	if l, err = two.Take(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	l.Release()
	if time.Now().Before(until) || !strings.HasPrefix(said, "a: paused until ") || !strings.HasSuffix(said, "as run 01M8 was told to wait") {
		t.Errorf("it waited for %q", said)
	}
}

// other is a process that takes slots as often as it can, and writes into a log when it
// has one and when it has none any more.
func other(home string) {
	h := Open(home, nil)
	log, err := os.OpenFile(filepath.Join(home, "log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	say := func(what string, i int) { fmt.Fprintf(log, "%s %d.%d\n", what, os.Getpid(), i) }
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for {
				l, err := h.Take(context.Background(), Request{Names: []string{"a"}, Clock: clock.Machine{}, Who: Who{Run: strconv.Itoa(os.Getpid())}})
				if err != nil {
					fmt.Println("error:", err)
					os.Exit(1)
				}
				say("began", i)
				time.Sleep(3 * time.Millisecond)
				say("ended", i)
				l.Release()
			}
		})
	}
	all.Wait()
}

// Processes that are killed at any moment lose no slot and double none. Who has one is
// counted by a log, which knows nothing of locks.
func TestKilledProcessesGiveTheirSlotsBack(t *testing.T) {
	kills := 30
	if testing.Short() {
		kills = 5
	}
	home := t.TempDir()
	write(t, home, "limits: {a: {slots: 3}}")
	log := filepath.Join(home, "log")
	var first *exec.Cmd
	begin := func() *exec.Cmd {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env, c.Stdout, c.Stderr = append(os.Environ(), "LIMITS_TEST_HOME="+home), os.Stderr, os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	first = begin()
	worst := 0
	for k := range kills {
		second := begin()
		for i, want := range map[int]int{first.Process.Pid: 20 * (k + 1), second.Process.Pid: 20} {
			for strings.Count(string(read(t, log)), "began "+strconv.Itoa(i)) < want {
				time.Sleep(time.Millisecond)
			}
		}
		_ = second.Process.Kill()
		_ = second.Wait() // it was killed
		fmt.Fprintf(appendTo(t, log), "died %d.\n", second.Process.Pid)
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	has := map[string]bool{}
	for line := range strings.Lines(string(read(t, log))) {
		what, who, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "began":
			has[who] = true
		case "ended":
			delete(has, who)
		case "died":
			for w := range has {
				if strings.HasPrefix(w, who) {
					delete(has, w)
				}
			}
		}
		// A process that was killed has none any more a moment before it is known to be dead.
		living := 0
		for w := range has {
			if strings.HasPrefix(w, strconv.Itoa(first.Process.Pid)+".") {
				living++
			}
		}
		worst = max(worst, living)
		if living > 3 {
			t.Fatalf("%d have one of 3 slots", living)
		}
	}
	if worst != 3 {
		t.Errorf("the one that was never killed had %d of 3 slots at most", worst)
	}
	h := Open(home, nil)
	defer h.Close()
	if s := status(t, h, "a"); len(s.Held)+len(s.Waiting) != 0 {
		t.Fatalf("when all are dead: %+v", s)
	}
}

func read(t *testing.T, path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return b
}

func appendTo(t *testing.T, path string) *os.File {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// While all live, there are never more than there are slots.
func TestProcessesTogetherNeverHaveMoreThanThereAre(t *testing.T) {
	home := t.TempDir()
	write(t, home, "limits: {a: {slots: 3}}")
	log := filepath.Join(home, "log")
	ctx, cancel := context.WithCancel(t.Context())
	var procs [3]*exec.Cmd
	for i := range procs {
		procs[i] = exec.CommandContext(ctx, os.Args[0])
		procs[i].Env, procs[i].Stdout = append(os.Environ(), "LIMITS_TEST_HOME="+home), os.Stderr
		if err := procs[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for strings.Count(string(read(t, log)), "began") < 600 {
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	for _, p := range procs {
		_ = p.Wait() // it was killed
	}
	n, worst, by := 0, 0, map[string]int{}
	for i, line := range strings.Split(string(read(t, log)), "\n") {
		if i == 600 { // from then on some may be dead
			break
		}
		switch what, who, _ := strings.Cut(line, " "); what {
		case "began":
			n++
			pid, _, _ := strings.Cut(who, ".")
			by[pid]++
		case "ended":
			n--
		}
		worst = max(worst, n)
	}
	if worst != 3 {
		t.Errorf("%d at once have had one of 3 slots", worst)
	}
	if len(by) != 3 {
		t.Errorf("not all had one: %v", by)
	}
}

// stepping is a clock on which each wait takes 3 s, and ends with f.
type stepping struct {
	now time.Time
	f   func(n int)
	n   int
}

func (s *stepping) Now() time.Time { return s.now }

func (s *stepping) Wait(ctx context.Context, _ time.Duration, _ <-chan struct{}) error {
	s.n++
	s.now = s.now.Add(3 * time.Second)
	s.f(s.n)
	return ctx.Err()
}

// What waits were, and how many pauses, is known of a limit over all runs: also of those that
// have given up, and of one that is not looked after, since it waits in a line.
func TestWaitsAndPausesAreCounted(t *testing.T) {
	home := t.TempDir()
	write(t, home, "limits: {a: {slots: 1, pause: shared}, b: {slots: 1}}")
	one, two := Open(home, nil), Open(home, nil)
	defer one.Close()
	defer two.Close()
	holding, err := one.Take(t.Context(), request("a"))
	if err != nil {
		t.Fatal(err)
	}
	r := request("a", "b")
	r.Clock = &stepping{now: time.Now(), f: func(n int) {
		if n == 2 {
			s := status(t, one, "a")
			if len(s.Held) != 1 || len(s.Waiting) != 1 {
				t.Errorf("while one waits: %+v", s)
			}
			tickets, err := filepath.Glob(filepath.Join(home, "limits", "a", "waiting", "*"))
			if err != nil || len(tickets) != 1 {
				t.Fatal(tickets, err)
			}
			old := time.Now().Add(-time.Hour)
			if err := os.Chtimes(tickets[0], old, old); err != nil {
				t.Fatal(err)
			}
			if s := status(t, one, "a"); len(s.Waiting) != 1 {
				t.Errorf("who is not looked after waits no more: %+v", s)
			}
			holding.Release()
		}
	}}
	got, err := two.Take(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gives := request("a")
	gives.Clock = &stepping{now: time.Now(), f: func(int) { cancel() }}
	if _, err = one.Take(ctx, gives); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	got.Release()
	for _, until := range []time.Duration{1, 3, 2} { // of which the last prolongs nothing
		if err := one.Pause([]string{"a", "b"}, time.Now().Add(until*time.Hour), "r", strings.Repeat("\x01", 500)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := two.Lift([]string{"a"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]State{"a": {Waits: 2, Waited: 9 * time.Second, Pauses: 2}, "b": {}} {
		if s := status(t, two, name); s.State != want {
			t.Errorf("%s: %+v, want %+v", name, s.State, want)
		}
	}
}
