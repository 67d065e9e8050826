package circuit_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/circuit/driver"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func machine(t testing.TB, c circuit.Config) *driver.Machine {
	t.Helper()
	m, err := driver.NewMachine(driver.Config(c))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// admit acquires a ticket that must be given.
func admit(t testing.TB, m *driver.Machine, now time.Time) driver.Ticket {
	t.Helper()
	ticket, err := m.Acquire(now)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

// refuse expects a refusal in the state given.
func refuse(t testing.TB, m *driver.Machine, now time.Time, state circuit.State, after time.Duration) {
	t.Helper()
	_, err := m.Acquire(now)
	var refusal *circuit.OpenError
	if !errors.As(err, &refusal) || !errors.Is(err, circuit.ErrOpen) {
		t.Fatalf("the answer is %v, want a refusal", err)
	}
	if refusal.State != state || refusal.RetryAfter != after {
		t.Fatalf("refused in the state %v, retry after %v; want %v, %v", refusal.State, refusal.RetryAfter, state, after)
	}
	if got := m.RetryAfter(now); got != after {
		t.Fatalf("RetryAfter is %v, want %v", got, after)
	}
}

func expect(t testing.TB, m *driver.Machine, now time.Time, want circuit.State) {
	t.Helper()
	if got := m.State(now); got != want {
		t.Fatalf("state is %v, want %v", got, want)
	}
}

// open makes a closed machine open.
func open(t testing.TB, m *driver.Machine, threshold int, now time.Time) {
	t.Helper()
	for range threshold {
		m.Done(admit(t, m, now), circuit.Failure, now)
	}
	expect(t, m, now, circuit.Open)
}

func TestLifeOfAMachine(t *testing.T) {
	m, now := machine(t, circuit.Config{Name: "db"}), start
	for range 4 {
		m.Done(admit(t, m, now), circuit.Failure, now)
	}
	expect(t, m, now, circuit.Closed)
	m.Done(admit(t, m, now), circuit.Success, now) // in a row is what counts
	for range 4 {
		m.Done(admit(t, m, now), circuit.Failure, now)
	}
	m.Done(admit(t, m, now), circuit.Neutral, now) // says nothing
	expect(t, m, now, circuit.Closed)
	m.Done(admit(t, m, now), circuit.Failure, now)
	expect(t, m, now, circuit.Open)
	refuse(t, m, now, circuit.Open, 30*time.Second)
	now = now.Add(29 * time.Second)
	refuse(t, m, now, circuit.Open, time.Second)
	now = now.Add(time.Second)
	expect(t, m, now, circuit.HalfOpen)
	a, b, c := admit(t, m, now), admit(t, m, now), admit(t, m, now)
	refuse(t, m, now, circuit.HalfOpen, 30*time.Second)
	m.Done(a, circuit.Success, now)
	m.Done(b, circuit.Success, now)
	expect(t, m, now, circuit.HalfOpen)
	m.Done(c, circuit.Failure, now)
	expect(t, m, now, circuit.Open)
	refuse(t, m, now, circuit.Open, 30*time.Second)
	now = now.Add(30 * time.Second)
	for range 3 { // the successes from before do not count
		expect(t, m, now, circuit.HalfOpen)
		m.Done(admit(t, m, now), circuit.Success, now)
	}
	expect(t, m, now, circuit.Closed)
}

func TestEverySettingCounts(t *testing.T) {
	m, now := machine(t, circuit.Config{
		FailureThreshold: 1, SuccessThreshold: 2, Timeout: time.Second, HalfOpenRequests: 1, Lease: time.Minute,
	}), start
	open(t, m, 1, now)
	refuse(t, m, now, circuit.Open, time.Second)
	now = now.Add(time.Second)
	lost := admit(t, m, now)
	refuse(t, m, now, circuit.HalfOpen, time.Minute)
	now = now.Add(time.Minute)
	m.Done(admit(t, m, now), circuit.Success, now)
	expect(t, m, now, circuit.HalfOpen)
	m.Done(lost, circuit.Success, now) // late, but of the same half-open
	expect(t, m, now, circuit.Closed)
}

// The threshold is exact.
func TestThresholdIsExact(t *testing.T) {
	m := machine(t, circuit.Config{FailureThreshold: 200})
	for i := range 200 {
		expect(t, m, start, circuit.Closed)
		m.Done(admit(t, m, start), circuit.Failure, start)
		if i == 199 {
			expect(t, m, start, circuit.Open)
		}
	}
}

// What began before the last change of state changes nothing.
func TestStaleAnswersChangeNothing(t *testing.T) {
	m, now := machine(t, circuit.Config{FailureThreshold: 1, SuccessThreshold: 1}), start
	var stale []driver.Ticket
	for range 5 {
		stale = append(stale, admit(t, m, now))
	}
	open(t, m, 1, now)
	m.Done(stale[0], circuit.Success, now)
	expect(t, m, now, circuit.Open)
	now = now.Add(30 * time.Second)
	probe := admit(t, m, now)
	m.Done(stale[1], circuit.Success, now)
	m.Done(stale[2], circuit.Failure, now)
	expect(t, m, now, circuit.HalfOpen)
	m.Done(probe, circuit.Success, now)
	expect(t, m, now, circuit.Closed)
	m.Done(stale[3], circuit.Failure, now)
	m.Done(probe, circuit.Failure, now)
	expect(t, m, now, circuit.Closed)
}

// A probe that never answers costs one lease.
func TestLostProbesAreReclaimed(t *testing.T) {
	m, now := machine(t, circuit.Config{}), start
	open(t, m, 5, now)
	now = now.Add(30 * time.Second)
	for range 100 { // for ever so long
		for range 3 {
			admit(t, m, now)
		}
		refuse(t, m, now, circuit.HalfOpen, 30*time.Second)
		now = now.Add(10 * time.Second)
		refuse(t, m, now, circuit.HalfOpen, 20*time.Second)
		now = now.Add(20 * time.Second)
		if wait := m.RetryAfter(now); wait != 0 {
			t.Fatalf("still %v to wait", wait)
		}
	}
	for range 3 {
		m.Done(admit(t, m, now), circuit.Success, now)
	}
	expect(t, m, now, circuit.Closed)
}

// However many probes are lost, memory does not grow with them.
func TestLostProbesAreForgotten(t *testing.T) {
	m, now := machine(t, circuit.Config{FailureThreshold: 1, HalfOpenRequests: 2}), start
	open(t, m, 1, now)
	for range 700 { // two each time
		now = now.Add(30 * time.Second)
		admit(t, m, now)
		admit(t, m, now)
	}
	if kept := len(m.Snapshot().Probes); kept > 1026 {
		t.Errorf("%d probes are remembered", kept)
	}
}

// A clock that is set back keeps the breaker open for its timeout from then on,
// and no longer; one that is told a moment before the opening is not half-open.
func TestClockSetBack(t *testing.T) {
	m, now := machine(t, circuit.Config{FailureThreshold: 1, HalfOpenRequests: 1}), start
	open(t, m, 1, now)
	expect(t, m, now.Add(-1), circuit.Open)
	refuse(t, m, now.Add(-1), circuit.Open, 30*time.Second)
	now = now.Add(-24 * time.Hour)
	refuse(t, m, now, circuit.Open, 30*time.Second)
	now = now.Add(30 * time.Second)
	admit(t, m, now)
	now = now.Add(-24 * time.Hour)
	refuse(t, m, now, circuit.HalfOpen, 30*time.Second) // the probe's lease begins again
	now = now.Add(30 * time.Second)
	if m.RetryAfter(now) != 0 || m.Snapshot().Probes[0].Lost {
		t.Error("to ask for the wait has changed the machine")
	}
	admit(t, m, now)
}

func TestSnapshotRoundTrip(t *testing.T) {
	m, now := machine(t, circuit.Config{SuccessThreshold: 2}), start
	open(t, m, 5, now)
	now = now.Add(30 * time.Second)
	probe := admit(t, m, now)
	m.Done(admit(t, m, now), circuit.Success, now)
	text, err := json.Marshal(m.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"state":"half_open","generation":2,"successes":1,"probes":[{"id":1,"until":"2026-01-02T03:05:05Z"}],"last_probe":2}`
	if string(text) != want {
		t.Errorf("the snapshot is\n%s, want\n%s", text, want)
	}
	var s circuit.Snapshot
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	restored := machine(t, circuit.Config{SuccessThreshold: 2})
	if err := restored.Restore(s); err != nil {
		t.Fatal(err)
	}
	restored.Done(probe, circuit.Success, now)
	expect(t, restored, now, circuit.Closed)
}

func TestRestoreRefusesNonsense(t *testing.T) {
	m := machine(t, circuit.Config{})
	open(t, m, 5, start)
	before := m.Snapshot()
	for _, text := range []string{
		`{"state":"open","probes":[{"id":1}],"last_probe":1}`,
		`{"state":"half_open","probes":[{"id":2}],"last_probe":1}`,
		`{"state":"half_open","probes":[{"id":2},{"id":1}],"last_probe":2}`,
		`{"state":"closed","failures":-1}`,
		`{"state":"closed","successes":1}`,
		`{"state":"closed","until":"2026-01-02T03:05:05Z"}`,
		`{"state":"open","generation":1}`,
		`{"state":"open","until":"2026-01-02T03:05:05Z"}`,
		`{"state":"open","generation":1,"failures":2,"until":"2026-01-02T03:05:05Z"}`,
		`{"state":"half_open","generation":2,"probes":[{"id":1}],"last_probe":1}`,
		`{"state":"closed","held":true}`,
		`{"state":"closed","window":{"calls":"BwcH"}}`,
		`{"state":"closed","window":{"buckets":[{"start":"2026-01-02T03:05:05Z","calls":1,"failures":2}]}}`,
	} {
		var s circuit.Snapshot
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if err := m.Restore(s); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	if err := m.Restore(circuit.Snapshot{State: 7}); err == nil {
		t.Error("state 7 is accepted")
	}
	if !reflect.DeepEqual(m.Snapshot(), before) {
		t.Error("a refused snapshot changed the machine")
	}
	var s circuit.Snapshot
	if err := json.Unmarshal([]byte(`{"state":"ajar"}`), &s); err == nil {
		t.Error("the state ajar is accepted")
	}
}

func TestConfigNamesEveryProblem(t *testing.T) {
	_, err := driver.NewMachine(driver.Config{FailureThreshold: -1, SuccessThreshold: -1, HalfOpenRequests: -1, Timeout: -1, Lease: -1})
	if joined, ok := err.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 5 {
		t.Errorf("want 5 problems, got %v", err)
	}
}

// model is the machine once more, by another method: it keeps every ticket
// that it gave and looks things up instead of counting along.
type model struct {
	config  circuit.Config
	state   circuit.State
	epoch   int // changes of state
	openEnd time.Time
	streak  int
	tickets []modelTicket
}

type modelTicket struct {
	epoch    int
	probe    bool
	until    time.Time
	lost     bool
	answered bool
}

func (m *model) acquire(now time.Time) (int, bool) {
	if m.state == circuit.Open && !now.Before(m.openEnd) {
		m.enter(circuit.HalfOpen)
	}
	switch m.state {
	case circuit.Open:
		return 0, false
	case circuit.HalfOpen:
		out := 0
		for i := range m.tickets {
			ticket := &m.tickets[i]
			ticket.lost = ticket.lost || !now.Before(ticket.until)
			if ticket.epoch == m.epoch && !ticket.answered && !ticket.lost {
				out++
			}
		}
		if out >= m.config.HalfOpenRequests {
			return 0, false
		}
	}
	m.tickets = append(m.tickets, modelTicket{epoch: m.epoch, probe: m.state == circuit.HalfOpen, until: now.Add(m.config.Lease)})
	return len(m.tickets) - 1, true
}

func (m *model) done(i int, outcome circuit.Outcome, now time.Time) {
	ticket := &m.tickets[i]
	if ticket.answered || ticket.epoch != m.epoch {
		return
	}
	ticket.answered = true
	switch {
	case outcome == circuit.Neutral:
	case m.state == circuit.Closed && outcome == circuit.Success:
		m.streak = 0
	case m.state == circuit.Closed:
		if m.streak++; m.streak == m.config.FailureThreshold {
			m.trip(now)
		}
	case outcome == circuit.Success:
		if m.streak++; m.streak == m.config.SuccessThreshold {
			m.enter(circuit.Closed)
		}
	default:
		m.trip(now)
	}
}

func (m *model) trip(now time.Time) {
	m.enter(circuit.Open)
	m.openEnd = now.Add(m.config.Timeout)
}

func (m *model) enter(s circuit.State) {
	m.state, m.streak = s, 0
	m.epoch++
}

func TestMachineAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := circuit.Config{
			FailureThreshold: rapid.IntRange(1, 4).Draw(t, "failures"),
			SuccessThreshold: rapid.IntRange(1, 4).Draw(t, "successes"),
			HalfOpenRequests: rapid.IntRange(1, 4).Draw(t, "probes"),
			Timeout:          time.Duration(rapid.IntRange(1, 5).Draw(t, "timeout")) * time.Second,
			Lease:            time.Duration(rapid.IntRange(1, 5).Draw(t, "lease")) * time.Second,
		}
		m, err := driver.NewMachine(driver.Config(config))
		if err != nil {
			t.Fatal(err)
		}
		reference := &model{config: config}
		now := start
		var tickets []driver.Ticket
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				predicted := m.RetryAfter(now)
				ticket, err := m.Acquire(now)
				_, ok := reference.acquire(now)
				if ok != (err == nil) || ok != (predicted == 0) {
					t.Fatalf("admitted %v, want %v (predicted wait %v)", err == nil, ok, predicted)
				}
				if ok {
					tickets = append(tickets, ticket)
				} else if predicted > max(config.Timeout, config.Lease) {
					t.Fatalf("refused for %v", predicted)
				}
			},
			"done": func(t *rapid.T) {
				i := rapid.IntRange(0, max(len(tickets)-1, 0)).Draw(t, "ticket")
				if len(tickets) == 0 {
					return
				}
				outcome := circuit.Outcome(rapid.IntRange(0, 2).Draw(t, "outcome"))
				if reference.tickets[i].answered && !reference.tickets[i].probe {
					return // a second answer in the closed state is the caller's to avoid
				}
				m.Done(tickets[i], outcome, now)
				reference.done(i, outcome, now)
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			},
			"restart": func(t *rapid.T) {
				text, err := json.Marshal(m.Snapshot())
				if err != nil {
					t.Fatal(err)
				}
				var s circuit.Snapshot
				if err := json.Unmarshal(text, &s); err != nil {
					t.Fatal(err)
				}
				fresh, err := driver.NewMachine(driver.Config(config))
				if err != nil {
					t.Fatal(err)
				}
				if err := fresh.Restore(s); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				m = fresh
			},
			"": func(t *rapid.T) {
				want := reference.state
				if want == circuit.Open && !now.Before(reference.openEnd) {
					want = circuit.HalfOpen
				}
				if got := m.State(now); got != want {
					t.Fatalf("state is %v, want %v", got, want)
				}
			},
		})
	})
}
