package main

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// The items of this scene take itemTime where the server has room, and each phase of the server's
// capacity lasts phaseTime.
const (
	itemTime  = 150 * time.Millisecond
	phaseTime = 150 * itemTime
)

// capacities are those of the phases.
var capacities = [...]int{20, 5, 40}

// changing is a server that does no more than its capacity at once. When more is asked of it, all
// is slower, and less gets done than with as much as it has room for.
type changing struct {
	http  *http.Server
	url   string
	began time.Time

	mu    sync.Mutex
	jobs  map[*job]bool
	ended []time.Duration // since it began
}

// job is a request that is being answered.
type job struct {
	left float64 // seconds, with room
	done chan struct{}
}

func serveChanging() (*changing, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &changing{url: "http://" + l.Addr().String(), began: time.Now(), jobs: map[*job]bool{}}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.http.Serve(l) }() // until close
	return s, nil
}

func (s *changing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	j := &job{itemTime.Seconds(), make(chan struct{})}
	s.mu.Lock()
	s.jobs[j] = true
	s.mu.Unlock()
	select {
	case <-j.done:
		fmt.Fprintln(w, "ok")
	case <-r.Context().Done():
		s.mu.Lock()
		delete(s.jobs, j)
		s.mu.Unlock()
	}
}

// work does what is asked of the server until all phases are over.
func (s *changing) work() {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for last := s.began; ; {
		now := <-tick.C
		at, d := now.Sub(s.began), now.Sub(last).Seconds()
		last = now
		phase := int(at / phaseTime)
		if phase >= len(capacities) {
			return
		}
		s.mu.Lock()
		speed := 1.0
		if over := float64(len(s.jobs)) / float64(capacities[phase]); over > 1 {
			speed = math.Pow(over, -1.5)
		}
		for j := range s.jobs {
			if j.left -= speed * d; j.left <= 0 {
				delete(s.jobs, j)
				close(j.done)
				s.ended = append(s.ended, at)
			}
		}
		s.mu.Unlock()
	}
}

// mapOver gives how many items of a map a changing server has answered in each phase, those in
// the first 20 items' time of each left out, and in all.
func (st *stage) mapOver(width string) (of [len(capacities)]int, all int, err error) {
	s, err := serveChanging()
	if err != nil {
		return of, 0, err
	}
	defer s.http.Close()
	file := fmt.Sprintf("name: changing\nisolation: none\nmap:\n  input: seq 1 100000\n  max_parallel: %s\n  agent_template:\n    - http: %s/${item}\n", width, s.url)
	if err := st.write("changing.yml", file); err != nil {
		return of, 0, err
	}
	c := st.command("run", "--quiet", "changing.yml")
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		return of, 0, err
	}
	for s.waiting() == 0 { // its phases begin with the first item
		time.Sleep(time.Millisecond)
	}
	s.began = time.Now()
	s.work()
	if err := c.Process.Signal(syscall.SIGKILL); err != nil {
		return of, 0, fmt.Errorf("the run has ended by itself: %w", err)
	}
	_ = c.Wait() // of a killed process
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.ended {
		if at%phaseTime >= 20*itemTime {
			of[at/phaseTime]++
		}
	}
	return of, len(s.ended), nil
}

func (s *changing) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.jobs)
}

// capacity: a server whose capacity changes, which nobody knows, and a map that finds it out.
func capacity(st *stage) (rows []row, err error) {
	found, all, err := st.mapOver("{min: 2, max: 64}")
	if err != nil {
		return nil, err
	}
	var best [len(capacities)]int
	most, of := 0, ""
	for _, width := range []string{"5", "20", "30", "37", "40"} {
		fixed, n, err := st.mapOver(width)
		if err != nil {
			return nil, err
		}
		for i := range best {
			best[i] = max(best[i], fixed[i])
		}
		if n > most {
			most, of = n, width
		}
	}
	for i, n := range found {
		rows = append(rows, share(fmt.Sprintf("of the best fixed width with a capacity of %d", capacities[i]), float64(n)/float64(best[i]), 0.9))
	}
	return append(rows, share("of the best fixed width ("+of+") over the whole", float64(all)/float64(most), 1)), nil
}
