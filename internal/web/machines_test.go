package web

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// elsewhere records a run that other machines continue with.
func (s *served) elsewhere(h journal.Header, events ...event.Event) string {
	s.t.Helper()
	id := s.run(h, events...)
	for _, name := range []string{journal.GoesOn, journal.Elsewhere} {
		if err := os.WriteFile(filepath.Join(s.store.RunDir(id), name), []byte("{}"), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	return id
}

// TestMachinesAreAskedOnce: however many look, the server is asked once, and then not again
// before its time.
func TestMachinesAreAskedOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := serve(t, Options{OnMachines: true, Machines: func(context.Context) (cluster.State, error) {
		asked.Add(1)
		return cluster.State{Address: nasty, Namespace: nasty, Workers: []cluster.SeenWorker{{Name: nasty, Version: "night:b1"}}, Runs: []cluster.SeenRun{{Run: nasty, Trouble: nasty}}}, nil
	}})
	s.machinesEvery = time.Hour
	if n := asked.Load(); n != 0 {
		t.Errorf("nobody has looked, and it was asked %d times", n)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { s.page("/machines") })
	}
	all.Wait()
	// Its answer is here by now, or comes soon: the asking itself is over.
	s.machines.work.Wait()
	if body := s.page("/machines"); strings.Contains(body, "<script>") || strings.Contains(body, "<img") || strings.Count(body, "alert(1)") < 4 || !strings.Contains(body, ", version night:b1</th>") {
		t.Errorf("what the server says is no text:\n%s", body)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	s.machines.mu.Lock()
	s.machines.made = time.Now().Add(-2 * time.Hour)
	s.machines.mu.Unlock()
	s.page("/machines")
	s.machines.work.Wait()
	if n := asked.Load(); n != 2 {
		t.Errorf("it was asked %d times when the answer was old", n)
	}
}

// TestMachinesThatHang: a server that does not answer keeps no page from being shown; after its
// time the page says so, and the end of the dashboard does not wait for it.
func TestMachinesThatHang(t *testing.T) {
	t.Parallel()
	answers := make(chan struct{})
	s := serve(t, Options{Machines: func(ctx context.Context) (cluster.State, error) {
		select {
		case <-ctx.Done():
			return cluster.State{}, errors.New("signal: killed")
		case <-answers:
			return cluster.State{}, nil
		}
	}})
	id := s.elsewhere(journal.Header{Name: "import", Kind: "mapreduce"}, event.Event{Type: event.RunStarted})
	s.list.refresh(t.Context())
	for path, every := range map[string]string{"/": `data-part="runs" data-every="1"`, "/runs/" + id: `data-part="head" data-every="1"`, "/machines": `data-every="1"`} {
		body := s.page(path)
		if !strings.Contains(body, every) || strings.Contains(body, "held up") {
			t.Errorf("%s, while the server is asked:\n%s", path, body)
		}
		if path == "/machines" && !strings.Contains(body, "The Temporal server is being asked; its answer is here in a moment.") {
			t.Errorf("the page says\n%s", body)
		}
	}
	close(answers)
	s.machines.work.Wait()

	s = serve(t, Options{OnMachines: true, Machines: func(ctx context.Context) (cluster.State, error) {
		<-ctx.Done()
		return cluster.State{}, errors.New("signal: killed")
	}})
	s.machinesWait, s.machinesEvery = time.Millisecond, time.Hour
	s.page("/machines")
	s.machines.work.Wait()
	if body := s.page("/machines"); !strings.Contains(body, `role="alert">Temporal cannot be asked: the Temporal server has not answered within 1ms; TEMPORAL_ADDRESS names another.<`) || !strings.Contains(body, `data-every="5"`) {
		t.Errorf("the page says\n%s", body)
	}
	s = serve(t, Options{OnMachines: true, Machines: func(ctx context.Context) (cluster.State, error) {
		<-ctx.Done() // until the test ends
		return cluster.State{}, ctx.Err()
	}})
	s.page("/machines")
}

// TestOldMachines: what the server said a while ago is not shown as how things are.
func TestOldMachines(t *testing.T) {
	t.Parallel()
	var trouble atomic.Value
	trouble.Store("the disk is full")
	again := make(chan struct{})
	var asked atomic.Int64
	var id atomic.Value
	s := serve(t, Options{Machines: func(ctx context.Context) (cluster.State, error) {
		if asked.Add(1) > 1 {
			select {
			case <-again:
			case <-ctx.Done():
			}
		}
		return cluster.State{Runs: []cluster.SeenRun{{Run: id.Load().(string), Trouble: trouble.Load().(string)}}}, nil
	}})
	id.Store(s.elsewhere(journal.Header{Name: "import", Kind: "mapreduce"}, event.Event{Type: event.RunStarted}))
	s.list.refresh(t.Context())
	run := "/runs/" + id.Load().(string)
	s.page("/")
	s.machines.work.Wait()
	for path, want := range map[string]string{"/": "<b class=\"t-waiting\">held up: the disk is full</b>", run: "<li>held up: the disk is full</li>"} {
		if body := s.page(path + "?now=1"); !strings.Contains(body, want) || !strings.Contains(body, `data-every="5"`) {
			t.Errorf("%s does not say %s:\n%s", path, want, body)
		}
	}
	s.machines.mu.Lock()
	s.machines.made, s.machines.known.At = s.machines.made.Add(-machinesKept), s.machines.known.At.Add(-machinesKept)
	s.machines.mu.Unlock()
	for _, path := range []string{"/", run + "?now=2"} {
		if body := s.page(path); strings.Contains(body, "held up") {
			t.Errorf("%s says what was:\n%s", path, body)
		}
	}
	trouble.Store("")
	close(again)
	s.machines.work.Wait()
	if body := s.page("/"); strings.Contains(body, "held up") {
		t.Errorf("what held it up is over, and the list says\n%s", body)
	}
}

// TestRunsOfThisMachineAskNobody: without a run on many machines in progress, no page but that
// of the machines has the server asked.
func TestRunsOfThisMachineAskNobody(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{OnMachines: true, Machines: func(context.Context) (cluster.State, error) {
		t.Error("it is asked")
		return cluster.State{}, nil
	}})
	here := s.run(journal.Header{Name: "here", Kind: "workflow"}, event.Event{Type: event.RunStarted})
	over := s.elsewhere(journal.Header{Name: "over", Kind: "workflow"}, event.Event{Type: event.RunStarted}, event.Event{Type: event.RunFinished, Status: event.Succeeded})
	if err := os.Remove(filepath.Join(s.store.RunDir(over), journal.GoesOn)); err != nil {
		t.Fatal(err)
	}
	s.list.refresh(t.Context())
	for _, path := range []string{"/", "/compare", "/runs/" + here, "/runs/" + over} {
		if body := s.page(path); strings.Contains(body, "data-every") || !strings.Contains(body, `href="/machines"`) {
			t.Errorf("%s:\n%s", path, body)
		}
	}
}

// TestNoMachines: without the means to ask there is no page, whatever runs there are; strangers
// see no link to it.
func TestNoMachines(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{OnMachines: true})
	s.elsewhere(journal.Header{Name: "import", Kind: "mapreduce"}, event.Event{Type: event.RunStarted})
	s.list.refresh(t.Context())
	if body := s.page("/"); strings.Contains(body, "/machines") || strings.Contains(body, "data-every") {
		t.Errorf("the list says\n%s", body)
	}
	if code, _, body := s.get(s.in, s.at("/machines")); code != http.StatusNotFound || !strings.Contains(body, "<code>bide docs cluster</code>") {
		t.Errorf("status %d:\n%s", code, body)
	}
	s = serve(t, Options{OnMachines: true, Machines: func(context.Context) (cluster.State, error) { return cluster.State{}, nil }})
	if code, _, body := s.get(s.out, s.at("/machines")); code != http.StatusUnauthorized || strings.Contains(body, "/machines") {
		t.Errorf("a stranger gets status %d:\n%s", code, body)
	}
}

// TestRunsThatAreGone: the link goes with the last run on many machines.
func TestRunsThatAreGone(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Machines: func(context.Context) (cluster.State, error) { return cluster.State{}, nil }})
	id := s.elsewhere(journal.Header{Name: "import", Kind: "mapreduce"}, event.Event{Type: event.RunStarted}, event.Event{Type: event.RunFinished, Status: event.Succeeded})
	for range 3 {
		s.list.refresh(t.Context())
	}
	if !strings.Contains(s.page("/"), `href="/machines"`) {
		t.Error("there is no link")
	}
	if err := s.store.Remove(id); err != nil {
		t.Fatal(err)
	}
	s.list.refresh(t.Context())
	if strings.Contains(s.page("/"), `href="/machines"`) {
		t.Error("the link is still there")
	}
}
