// Package web is the dashboard: `bide ui`. It reads journals and shows them in
// a browser; it writes nothing. What it changes, it has changed by a process of
// the same program, see action.go.
//
//	s, err := web.New(web.Options{Store: store, Listen: "127.0.0.1:0", Program: []string{"/usr/bin/bide"}})
//	fmt.Println(s.URL("/"))
//	err = s.Serve(ctx)
//
// Of each run that somebody looks at there is one fold over its events (run.go,
// items.go), kept by following the journal: a request reads what the fold says.
// Texts that are too large to be kept (outputs, items' data) are read by their
// place when a page shows them.
//
// How the machines of a Temporal server stand is asked for by a port while somebody looks
// (page_machines.go); pages do not wait for the answer, but for a moment that of the machines.
//
// Pages are templates (pages/), complete without scripts. What moves is ours
// too (ui/, bundled into dist/): one stream of server-sent events a browser
// (stream.go). How strangers are kept out is in guard.go.
package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/journal"
)

// Options are what a server is made with.
type Options struct {
	Store *journal.Store
	// Listen is the address to listen on, HOST:PORT; "" means a free port of
	// 127.0.0.1.
	Listen string
	// Hosts are further names, each with the port that browsers send or without
	// one, under which a proxy in front of the server is reached.
	Hosts []string
	// ReadOnly leaves out everything that changes a run.
	ReadOnly bool
	// MetricsToken lets in who reads /metrics with it in an Authorization header;
	// "" means that only a browser that is signed in can read them.
	MetricsToken string
	// Program is the command that actions run, to which their arguments are
	// added; nil means this program.
	Program []string
	// Waiting gives the runs that wait for somebody; nil: the list of runs has none of it.
	Waiting func(context.Context) (Waiting, error)
	// Machines asks the Temporal server how workers and runs stand, until the context ends; nil:
	// the dashboard tells nothing of it.
	Machines func(context.Context) (cluster.State, error)
	// OnMachines says that this machine's settings name a Temporal server: its page is there
	// before a run is.
	OnMachines bool
	// Reissued, where it is not nil, is told the address to open the next
	// browser with, each time one was let in.
	Reissued func(url string)
}

// Server serves the pages. It is made by New.
type Server struct {
	opt     Options
	ln      net.Listener
	guard   *guard
	runs    *runs
	list    *list
	ends    context.Context // of the streams
	end     context.CancelFunc
	actions actions
	// patience is how long a reader of the stream may take to take a message.
	patience time.Duration
	meter    *meter
	waits    waits
	machines kept[seen]
	shares   shares
	// machinesEvery is after how long the Temporal server is asked again at most, and
	// machinesWait how long it may take.
	machinesEvery, machinesWait time.Duration
	// foresightSlot lets one page of foresight be computed at a time.
	foresightSlot  chan struct{}
	foresightFirst time.Duration // that the first answer of such a page takes
}

// New opens the port, so that the address is known, and serves nothing yet.
func New(opt Options) (*Server, error) {
	opt.Listen = cmp.Or(opt.Listen, "127.0.0.1:0")
	if len(opt.Program) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("cannot find the program that actions run: %w", err)
		}
		opt.Program = []string{self}
	}
	if _, _, err := net.SplitHostPort(opt.Listen); err != nil {
		return nil, fmt.Errorf("cannot listen on %q: %w; write HOST:PORT", opt.Listen, err)
	}
	ln, err := net.Listen("tcp", opt.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot serve the dashboard: %w", err)
	}
	s := &Server{opt: opt, ln: ln, runs: &runs{st: opt.Store}, patience: slow, foresightSlot: make(chan struct{}, 1), foresightFirst: foresightFirst, machinesEvery: machinesEvery, machinesWait: machinesWait}
	s.list = &list{st: opt.Store, runs: s.runs}
	if s.guard, err = newGuard(opt.Listen, ln.Addr().(*net.TCPAddr), opt.Hosts, opt.Reissued); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	s.guard.metrics = opt.MetricsToken
	s.meter = newMeter(opt.Store, time.Now())
	s.ends, s.end = context.WithCancel(context.Background())
	return s, nil
}

// URL is an address that lets one browser in, once, and opens a page, as in
// "/runs/01KAJ3".
func (s *Server) URL(path string) string { return s.guard.entrance(path) }

// Outside gives the same address under each name of a proxy, which is taken to
// speak TLS.
func (s *Server) Outside(path string) (urls []string) {
	for _, name := range s.guard.proxies {
		urls = append(urls, s.guard.entranceAt("https://"+name, path))
	}
	return urls
}

// Elsewhere gives the same address under each name that other machines may know this one by,
// where it listens on all of its addresses. It speaks no TLS.
func (s *Server) Elsewhere(path string) (urls []string) {
	for _, name := range s.guard.own {
		urls = append(urls, s.guard.entranceAt("http://"+name, path))
	}
	return urls
}

// Serve serves until ctx ends, which is no error.
func (s *Server) Serve(ctx context.Context) error {
	handler, err := s.handler()
	if err != nil {
		return errors.Join(err, s.ln.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.list.watch(ctx)
	}()
	h := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		s.end() // the streams: they would never end by themselves
		grace, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		stopped <- h.Shutdown(grace)
	}()
	err = h.Serve(s.ln)
	cancel()
	<-watched
	if errors.Is(err, http.ErrServerClosed) {
		if err = <-stopped; errors.Is(err, context.DeadlineExceeded) {
			err = h.Close()
		}
	}
	s.waits.work.Wait()
	s.machines.work.Wait()
	return errors.Join(err, s.runs.close())
}

// handler is every page behind the guard.
func (s *Server) handler() (http.Handler, error) {
	mux := http.NewServeMux()
	static, err := newAssets()
	if err != nil {
		return nil, err
	}
	p := &pages{Server: s, assets: static}
	p.register(mux)
	mux.HandleFunc("GET /metrics", s.serveMetrics)
	mux.HandleFunc("GET /stream", p.stream)
	mux.HandleFunc("POST /runs/{run}/{action}", p.act)
	mux.Handle("GET /runs", http.RedirectHandler("/", http.StatusSeeOther)) // the list, by the path of its runs
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, r, http.StatusNotFound, "There is no such page.", "The address may be mistyped. All runs are in the list.")
	})
	static.register(mux)
	return s.guard.wrap(mux, p.fail), nil
}
