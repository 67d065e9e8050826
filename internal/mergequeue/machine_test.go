package mergequeue_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/mergequeue"
)

// world is a repository and what verifies find in it, by what items do and nothing else. A
// commit is the list of the items that it has, a tree the set of them.
type world struct {
	t       *testing.T
	bad     map[int]bool    // red by itself
	enemies map[[2]int]bool // red together
	clash   map[[2]int]bool // in conflict
	flaky   func() bool     // a verify is red by chance
	down    func(n int) bool
	again   int // how often a red verify runs again

	commits  map[string][]int
	tip      string
	landed   []int
	refused  map[int]string // with which merge
	verified map[string]bool
	verifies int // of merges
	searches int // of them, for whom an item breaks with
	bases    int
	held     int
	mended   int
	asked    []mergequeue.Action
}

// mend is a commit of others, without which all is red where mended is set: it comes in that
// hold.
const mend = 1000

func newWorld(t *testing.T) *world {
	w := &world{t: t, bad: map[int]bool{}, enemies: map[[2]int]bool{}, clash: map[[2]int]bool{}, commits: map[string][]int{"base": nil}, tip: "base", refused: map[int]string{}, verified: map[string]bool{}}
	return w
}

func pair(pairs map[[2]int]bool, a, b int) bool { return pairs[[2]int{min(a, b), max(a, b)}] }

func (w *world) commit(list []int) mergequeue.Commit {
	id := fmt.Sprint("c", len(w.commits))
	w.commits[id] = list
	return w.at(id)
}

func (w *world) at(id string) mergequeue.Commit {
	return mergequeue.Commit{ID: id, Tree: fmt.Sprint("t", slices.Sorted(slices.Values(w.commits[id])))}
}

// green says what a verify finds.
func (w *world) green(id string) bool {
	list := w.commits[id]
	if w.mended > 0 && !slices.Contains(list, mend) {
		return false
	}
	for i, a := range list {
		if w.bad[a] {
			return false
		}
		for _, b := range list[:i] {
			if pair(w.enemies, a, b) {
				return false
			}
		}
	}
	for range w.again + 1 {
		if w.flaky == nil || !w.flaky() {
			return true
		}
	}
	return false
}

// run drives a machine until it is idle.
func (w *world) run(m *mergequeue.Machine) {
	w.t.Helper()
	for n := 0; ; n++ {
		a := m.Next()
		if again := m.Next(); fmt.Sprint(again) != fmt.Sprint(a) {
			w.t.Fatalf("Next says %+v, and then %+v", a, again)
		}
		if n > 100_000 {
			w.t.Fatalf("it does not end: %+v", a)
		}
		w.asked = append(w.asked, a)
		switch a.Kind {
		case mergequeue.Idle:
			return
		case mergequeue.Base:
			m.OnBase(w.at(w.tip))
		case mergequeue.Join:
			w.join(m, a)
		case mergequeue.Verify:
			w.verify(m, a)
		case mergequeue.Hold:
			w.held++
			if w.mended > 0 && w.held == w.mended {
				w.tip = w.commit(append(slices.Clone(w.commits[w.tip]), mend)).ID
				m.Moved()
			} else {
				m.Probe()
			}
		case mergequeue.Land:
			if a.Onto != w.tip || !w.verified[a.Commit.Tree] {
				w.t.Fatalf("%+v lands upon %s; the tip is %s, and %v", a, a.Onto, w.tip, w.verified)
			}
			for _, b := range a.Merges {
				w.landed = append(w.landed, b.Item)
			}
			w.tip = a.Commit.ID
			m.Landed()
		case mergequeue.Refuse:
			w.refused[a.Item] = a.With
			m.Refused()
		}
	}
}

func (w *world) join(m *mergequeue.Machine, a mergequeue.Action) {
	has := w.commits[a.Onto]
	if slices.Contains(has, a.Item) {
		w.t.Fatalf("%d is merged upon %v", a.Item, has)
	}
	for _, b := range has {
		if pair(w.clash, a.Item, b) {
			if m.Conflicted() {
				w.refused[a.Item] = "conflict"
			}
			return
		}
	}
	m.Merged(w.commit(append(slices.Clone(has), a.Item)))
}

func (w *world) verify(m *mergequeue.Machine, a mergequeue.Action) {
	if len(a.Items) == 0 {
		w.bases++
	} else {
		w.verifies++
	}
	if a.Onto != w.tip {
		w.searches++
	}
	green := w.green(a.Commit.ID)
	if w.down != nil && w.down(w.verifies+w.bases) {
		green = false
	}
	if green {
		w.verified[a.Commit.Tree] = true
	}
	m.Verified(green)
}

// numbers are from..to.
func numbers(from, to int) (list []int) {
	for i := from; i <= to; i++ {
		list = append(list, i)
	}
	return list
}

// judge compares what landed and what was refused with what the items are.
func (w *world) judge(n int) {
	w.t.Helper()
	landed := map[int]bool{}
	for _, i := range w.landed {
		if landed[i] {
			w.t.Errorf("%d landed twice", i)
		}
		landed[i] = true
	}
	for i := 1; i <= n; i++ {
		with, refused := w.refused[i]
		if with != "conflict" && w.down != nil {
			with = "" // with whom it breaks may not be found in an outage
		}
		if landed[i] == refused {
			w.t.Errorf("%d landed: %v, was refused: %v", i, landed[i], refused)
		}
		if !refused {
			continue
		}
		why := ""
		for j := 1; j <= n; j++ {
			if j != i && landed[j] && pair(w.enemies, i, j) {
				why += fmt.Sprintf("%d,", j)
			}
		}
		clash := slices.ContainsFunc(w.landed, func(j int) bool { return pair(w.clash, i, j) })
		switch {
		case with == "conflict":
			if !clash {
				w.t.Errorf("%d was refused for a conflict, and has none with %v", i, w.landed)
			}
		case with != "":
			if list := w.commits[with]; !pair(w.enemies, i, list[len(list)-1]) {
				w.t.Errorf("%d was refused with %d; its enemies are %s", i, list[len(list)-1], why)
			}
		case !w.bad[i] && why == "":
			w.t.Errorf("%d is innocent and was refused", i)
		case !w.bad[i] && !clash && w.down == nil: // where it clashes with the start of the search, nothing can be said
			w.t.Errorf("%d was refused alone; it breaks with %s", i, why)
		}
	}
	if !w.green(w.tip) && w.flaky == nil {
		w.t.Errorf("what landed is red: %v", w.landed)
	}
}

// One culprit of a batch costs at most 2 log2(batch) verifies more than the one that was
// red, wherever it is. Besides them the base is verified, at most twice, and the culprit
// upon the start, once, where something has landed. All others land.
func TestCostOfACulprit(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 2, 4, 8, 16, 32, 64} {
		worst := 0
		for at := 1; at <= batch; at++ {
			w := newWorld(t)
			w.bad[at] = true
			m := mergequeue.New(mergequeue.Config{Batch: batch})
			m.Add(numbers(1, batch)...)
			w.run(m)
			w.judge(batch)
			if len(w.landed) != batch-1 || w.refused[at] != "" {
				t.Errorf("batch %d, %d is bad: landed %v, refused %v", batch, at, w.landed, w.refused)
			}
			if w.bases > 2 {
				t.Errorf("batch %d, %d is bad: the base was verified %d times", batch, at, w.bases)
			}
			if w.searches > 1 {
				t.Errorf("batch %d, %d is bad: %d verifies for whom it breaks with", batch, at, w.searches)
			}
			worst = max(worst, w.verifies-w.searches-1)
		}
		bound := 2 * int(math.Log2(float64(batch)))
		t.Logf("batch %d: at most %d verifies, 2 log2 is %d", batch, worst, bound)
		if worst > max(bound, 1) {
			t.Errorf("batch %d: %d verifies", batch, worst)
		}
	}
}

// A base that is red, and that others mend during a hold: what they commit is verified, and
// all continues upon it.
func TestMendedInAHold(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 3, 8} {
		for mended := 1; mended < 4; mended++ {
			w := newWorld(t)
			w.bad[2], w.clash[[2]int{3, 4}], w.mended = true, true, mended
			m := mergequeue.New(mergequeue.Config{Batch: batch})
			m.Add(numbers(1, 8)...)
			w.run(m)
			w.judge(8)
			if w.held != mended || len(w.landed) != 6 {
				t.Errorf("batch %d, mended in hold %d: %d holds, landed %v, refused %v", batch, mended, w.held, w.landed, w.refused)
			}
		}
	}
}

// Whatever items do, exactly those land that may, and each other one has the cause that it
// has. A failure prints its seed.
func TestAgainstAModel(t *testing.T) {
	t.Parallel()
	for range 300 {
		seed := rand.Uint64()
		rnd := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rnd.IntN(40)
		w := newWorld(t)
		some := 1 + rnd.IntN(12)
		for i := 1; i <= n; i++ {
			w.bad[i] = rnd.IntN(some) == 0
			for _, pairs := range []map[[2]int]bool{w.enemies, w.clash} {
				if j := 1 + rnd.IntN(n); j != i && rnd.IntN(12) == 0 {
					pairs[[2]int{min(i, j), max(i, j)}] = true
				}
			}
		}
		batch := 1 + rnd.IntN(9)
		m := mergequeue.New(mergequeue.Config{Batch: batch, ByIndex: rnd.IntN(2) == 0})
		order := rnd.Perm(n)
		for len(order) > 0 {
			k := 1 + rnd.IntN(len(order))
			for _, i := range order[:k] {
				m.Add(i + 1)
			}
			order = order[k:]
			w.run(m)
		}
		w.judge(n)
		if all, most := w.verifies+w.bases, mergequeue.Most(n, batch); all > most {
			t.Errorf("%d items in batches of %d: %d verifies, at most %d", n, batch, all, most)
		}
		if left := m.Leave(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// A verify that is red one time in ten by chance refuses none of 200 innocent items, in
// thirty queues, where a red one runs twice again.
func TestRedByChance(t *testing.T) {
	t.Parallel()
	refused := 0
	seed := rand.Uint64()
	for i := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, i))
		w := newWorld(t)
		w.flaky, w.again = func() bool { return rnd.IntN(10) == 0 }, 2
		m := mergequeue.New(mergequeue.Config{Batch: 8})
		m.Add(numbers(1, 200)...)
		w.run(m)
		refused += len(w.refused)
		if len(w.landed) != 200 {
			t.Errorf("%d landed", len(w.landed))
		}
	}
	if refused > 0 {
		t.Errorf("seed %d: %d of 6,000 innocent items were refused", seed, refused)
	}
}

// While everything is red, for whatever time and wherever in a search that begins, nobody
// is refused for it.
func TestOutage(t *testing.T) {
	t.Parallel()
	for begin := range 40 {
		for _, span := range []int{1, 2, 3, 5, 8, 100} {
			w := newWorld(t)
			w.bad[5], w.bad[11] = true, true
			w.enemies[[2]int{2, 14}] = true
			w.down = func(n int) bool { return n > begin && n <= begin+span }
			m := mergequeue.New(mergequeue.Config{Batch: 8})
			m.Add(numbers(1, 20)...)
			w.run(m)
			w.judge(20)
			if len(w.landed) != 17 {
				t.Fatalf("down from %d for %d: landed %v, refused %v", begin, span, w.landed, w.refused)
			}
			if span == 100 && begin < 15 && w.held == 0 {
				t.Errorf("down from %d for %d: never held", begin, span)
			}
		}
	}
}

// An earlier life of the queue is known: what it landed may be whom an item breaks with,
// and its hold comes first.
func TestRecall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enemies[[2]int{1, 4}] = true
	first := w.commit([]int{1})
	w.tip = w.commit([]int{1, 2}).ID
	m := mergequeue.New(mergequeue.Config{Batch: 8})
	m.Recall("base", []string{first.ID, w.tip})
	m.Held()
	m.Add(3, 4, 5)
	w.run(m)
	if got := fmt.Sprint(w.landed, w.refused); got != fmt.Sprintf("[3 5] map[4:%s]", first.ID) || w.held != 1 {
		t.Errorf("landed and refused: %s, held %d", got, w.held)
	}
	if kinds := fmt.Sprint(w.asked[0].Kind, w.asked[1].Kind, w.asked[2].Kind); kinds != fmt.Sprint(mergequeue.Base, mergequeue.Hold, mergequeue.Verify) {
		t.Errorf("it began with %s", kinds)
	}
}

// What the queue has when it stops is given back, once each.
func TestLeave(t *testing.T) {
	t.Parallel()
	for stop := range 60 {
		w := newWorld(t)
		w.bad[3], w.bad[12] = true, true
		w.clash[[2]int{1, 2}] = true
		m := mergequeue.New(mergequeue.Config{Batch: 8})
		m.Add(numbers(1, 16)...)
		for range stop {
			a := m.Next()
			switch a.Kind {
			case mergequeue.Base:
				m.OnBase(w.at(w.tip))
			case mergequeue.Join:
				w.join(m, a)
			case mergequeue.Verify:
				w.verify(m, a)
			case mergequeue.Land:
				for _, b := range a.Merges {
					w.landed = append(w.landed, b.Item)
				}
				w.tip = a.Commit.ID
				m.Landed()
			case mergequeue.Refuse:
				w.refused[a.Item] = a.With
				m.Refused()
			}
		}
		all := append(m.Leave(), w.landed...)
		all = slices.DeleteFunc(all, func(i int) bool { _, gone := w.refused[i]; return gone })
		all = append(all, slices.Collect(maps.Keys(w.refused))...)
		slices.Sort(all)
		if fmt.Sprint(all) != fmt.Sprint(numbers(1, 16)) {
			t.Fatalf("stopped after %d: %v", stop, all)
		}
		if a := m.Next(); a.Kind != mergequeue.Idle {
			t.Errorf("then it asks for %+v", a)
		}
	}
}

// The next batch is known while one is verified for the first time, and no sooner.
func TestAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := mergequeue.New(mergequeue.Config{Batch: 2, ByIndex: true})
	m.Add(5, 4, 3, 2, 1)
	var got []string
	for range 5 {
		onto, items := m.Ahead()
		a := m.Next()
		got = append(got, fmt.Sprint(a.Kind, w.commits[onto], items))
		switch a.Kind {
		case mergequeue.Base:
			m.OnBase(w.at(w.tip))
		case mergequeue.Join:
			w.join(m, a)
		case mergequeue.Verify:
			w.verify(m, a)
		case mergequeue.Land:
			m.Landed()
		}
	}
	if want := "1 [] []|2 [] []|2 [] []|3 [1 2] [3 4]|5 [1 2] [3 4]"; strings.Join(got, "|") != want {
		t.Errorf("ahead: %s, want %s", strings.Join(got, "|"), want)
	}
}
