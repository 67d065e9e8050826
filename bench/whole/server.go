package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// server counts what asks it: requests of steps, and commands that hold a connection as long
// as they run.
type server struct {
	url     string
	http    *http.Server
	workers net.Listener

	mu     sync.Mutex
	down   func(at time.Duration) bool // nil: never
	takes  time.Duration               // for an answer
	began  time.Time
	good   map[string]int // answers by path
	failed int
	at     []time.Time // of requests and commands
	here   map[net.Conn]bool
	now    int // requests that are being answered
	most   int // requests or commands at once
}

func serve() (*server, error) {
	s := &server{began: time.Now(), good: map[string]int{}, here: map[net.Conn]bool{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if s.workers, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	s.url = "http://" + l.Addr().String()
	s.http = &http.Server{Handler: http.HandlerFunc(s.answer), ReadHeaderTimeout: time.Minute}
	go func() { _ = s.http.Serve(l) }() // until close
	go s.accept()
	return s, nil
}

func (s *server) close() {
	_ = s.http.Close()
	_ = s.workers.Close()
}

// set changes when the server is down, how long it takes, and begins to count anew.
func (s *server) set(takes time.Duration, down func(at time.Duration) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes, s.down, s.began = takes, down, time.Now()
	s.good, s.failed, s.at, s.most = map[string]int{}, 0, nil, 0
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.at = append(s.at, time.Now())
	down, takes := s.down != nil && s.down(time.Since(s.began)), s.takes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-r.Context().Done():
	}
	s.mu.Lock()
	s.now--
	if down {
		s.failed++
	} else {
		s.good[r.URL.Path]++
	}
	s.mu.Unlock()
	if down {
		http.Error(w, "invalid x-api-key", http.StatusUnauthorized)
		return
	}
	fmt.Fprintln(w, "ok")
}

// counts gives how many different paths were answered well, how often any was more than
// once, and how many answers were bad.
func (s *server) counts() (good, twice, failed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.good {
		good++
		twice += n - 1
	}
	return good, twice, s.failed
}

// window gives the most that came within a time, and how long all of it took.
func (s *server) window(d time.Duration) (most, all int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.at, time.Time.Compare)
	from := 0
	for i, t := range s.at {
		for t.Sub(s.at[from]) >= d {
			from++
		}
		most = max(most, i-from+1)
	}
	if len(s.at) > 1 {
		took = s.at[len(s.at)-1].Sub(s.at[0])
	}
	return most, len(s.at), took
}

// accept counts the commands that are there at once. One that has ended, and whose end has
// not been seen yet, is looked for before it counts.
func (s *server) accept() {
	for {
		c, err := s.workers.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		for other := range s.here {
			if ended(other) {
				delete(s.here, other)
			}
		}
		s.here[c] = true
		s.at = append(s.at, time.Now())
		s.most = max(s.most, len(s.here))
		s.mu.Unlock()
		if _, err := c.Write([]byte("ok\n")); err != nil {
			continue // it has ended, which the next one finds out
		}
	}
}

// ended reports whether the other side has closed a connection.
func ended(c net.Conn) bool {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	over := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		over = n == 0 && err == nil || err != nil && err != syscall.EAGAIN
		return true
	})
	return over || err != nil
}

// work is a command of an item: it is connected as long as it runs.
func work(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Read(make([]byte, 3)); err != nil {
		return err
	}
	time.Sleep(30 * time.Millisecond)
	_, err = fmt.Println("done", os.Getenv("BIDE_ITEM"))
	return err
}
