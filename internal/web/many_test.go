package web

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// goesOn is a map of n items of which the first half has ended, and which its process
// still has: step runs so many more of them.
type goesOn struct {
	*journal.Journal
	next, all int
}

func goOn(tb testing.TB, st *journal.Store, n int) *goesOn {
	tb.Helper()
	j, err := st.Create(journal.Header{Name: fmt.Sprintf("many %d", n), Kind: "mapreduce", Path: "many.yml"})
	if err != nil {
		tb.Fatal(err)
	}
	g := &goesOn{j, 1, n}
	for _, e := range []event.Event{{Type: event.RunStarted}, {Type: event.ItemsReady, Total: n}} {
		if err := j.Append(e); err != nil {
			tb.Fatal(err)
		}
	}
	if err := g.step(n / 2); err != nil {
		tb.Fatal(err)
	}
	if err := j.Sync(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := j.Close(); err != nil {
			tb.Error(err)
		}
	})
	return g
}

// step ends so many items; of ten one waits for a retry, of a hundred one is a dead letter.
func (g *goesOn) step(n int) error {
	for ; n > 0 && g.next <= g.all; n-- {
		i := g.next
		g.next++
		item := event.Event{Phase: "map", Index: i, Attempt: 1}
		start, end := item, item
		start.Type, end.Type, end.Status, end.Attempts = event.ItemStarted, event.ItemFinished, event.Succeeded, 1
		switch {
		case i%100 == 0:
			end.Status, end.Class, end.Message = event.DeadLettered, "exit", fmt.Sprintf("bad %d", i)
		case i%10 == 0:
			end = item
			end.Type, end.DelayMS, end.Class, end.Message = event.ItemRetry, 3_600_000, "timeout", "no answer"
		}
		for _, e := range []event.Event{start, end} {
			if err := g.Append(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// took is how long requests took, by what they asked for.
type took struct {
	mu   sync.Mutex
	list map[string][]time.Duration
}

func (x *took) add(what string, d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.list == nil {
		x.list = map[string][]time.Duration{}
	}
	x.list[what] = append(x.list[what], d)
}

func (x *took) count(what string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.list[what])
}

// watch does what a page of a map does: it asks for the page, the grid and the plot, takes
// the stream, and asks for the page and the plot again when that told something, at most
// every other second.
func (s *served) watch(ctx context.Context, id string, x *took) error {
	ask := func(what, path string) (string, error) {
		began := time.Now()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.at(path), nil)
		if err != nil {
			return "", err
		}
		res, err := s.in.Do(r)
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(res.Body)
		if err = cmp.Or(err, res.Body.Close()); err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", path, res.Status)
		}
		if err == nil {
			x.add(what, time.Since(began))
		}
		return string(body), err
	}
	page, err := ask("the page", "/runs/"+id+"/map")
	if err != nil {
		return err
	}
	if _, err := ask("the grid", "/runs/"+id+"/cells"); err != nil {
		return err
	}
	at := regexp.MustCompile(`data-live="([^"]+)"`).FindStringSubmatch(page)
	if at == nil {
		return fmt.Errorf("the page of %s is not live", id)
	}
	topic, _, _ := strings.Cut(at[1], "=")
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.at("/stream?topics="+topic+"&at="+at[1]), nil)
	if err != nil {
		return err
	}
	res, err := s.in.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 64<<20)
	for next := time.Now(); lines.Scan(); {
		if !strings.HasPrefix(lines.Text(), "data:") || time.Now().Before(next) {
			continue
		}
		if _, err := ask("the page", "/runs/"+id+"/map"); err != nil {
			return err
		}
		if _, err := ask("the plot", "/runs/"+id+"/series"); err != nil {
			return err
		}
		next = time.Now().Add(2 * time.Second)
	}
	return ctx.Err()
}

// TestManyWatchers: eight maps run at once, one of them of a million items, and 500
// pages watch them: no request takes longer than 100 ms. BIDE_FIGURES=1 runs that; else
// there are fewer of all, and the bound is that of a busy machine.
func TestManyWatchers(t *testing.T) {
	items, others, watchers, long, bound := 20_000, 2000, 24, time.Minute, time.Minute
	spread := time.Second
	figures := os.Getenv("BIDE_FIGURES") != ""
	if figures {
		items, others, watchers, long, bound = 1_000_000, 20_000, 500, 40*time.Second, 100*time.Millisecond
		spread = 10 * time.Second
	} else {
		t.Parallel()
	}
	s := serve(t, Options{})
	s.in.Transport = &http.Transport{MaxIdleConnsPerHost: 2 * watchers}
	maps := []*goesOn{goOn(t, s.store, items)}
	for range 7 {
		maps = append(maps, goOn(t, s.store, others))
	}
	for _, g := range maps { // the first page of a map reads all that happened
		began := time.Now()
		s.page("/runs/" + g.Run() + "/map")
		t.Logf("the first page of %d items: %s", g.all, time.Since(began).Round(time.Millisecond))
	}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var all sync.WaitGroup
	for _, g := range maps {
		all.Go(func() {
			for tick := time.NewTicker(50 * time.Millisecond); ; {
				select {
				case <-ctx.Done():
					tick.Stop()
					return
				case <-tick.C:
				}
				if err := g.step(5); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var x took
	for i := range watchers {
		all.Go(func() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(i) * spread / time.Duration(watchers)):
			}
			g := maps[0] // every other page watches the large one
			if i%2 == 1 {
				g = maps[1+i/2%7]
			}
			if err := s.watch(ctx, g.Run(), &x); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	if !figures { // until all were told something
		all.Go(func() {
			for tick := time.NewTicker(10 * time.Millisecond); ; {
				select {
				case <-ctx.Done():
					tick.Stop()
					return
				case <-tick.C:
				}
				if x.count("the plot") >= watchers {
					cancel()
				}
			}
		})
	}
	all.Wait()
	for what, list := range x.list {
		slices.Sort(list)
		n := len(list)
		t.Logf("%s: %d requests, median %s, 99 of 100 within %s, longest %s", what, n, list[n/2].Round(time.Microsecond), list[n*99/100].Round(time.Microsecond), list[n-1].Round(time.Microsecond))
		if list[n-1] > bound {
			t.Errorf("%s took %s, and %s are promised", what, list[n-1], bound)
		}
	}
	if len(x.list["the plot"]) < watchers {
		t.Errorf("the pages were asked for again %d times by %d watchers: the stream told too little", len(x.list["the plot"]), watchers)
	}
}
