package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A program that has no client for a store's server reaches the store through a program
// that has one: they speak HTTP over their own connections. So bide needs none of the
// clients that bide-temporal has.

const (
	kindHeader  = "Bide-Error"
	kindExist   = "exist"
	kindMissing = "missing"
	// throughConns is the greatest number of connections, each to one program.
	throughConns = 4
	throughIdle  = 30 * time.Second
)

// Serve serves the objects of a store on a connection until the connection ends.
func Serve(conn net.Conn, o Objects) error {
	l := &oneConn{conn: make(chan net.Conn, 1), over: make(chan struct{}), addr: conn.LocalAddr()}
	l.conn <- conn
	s := http.Server{Handler: serving{o}, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			close(l.over)
		}
	}}
	if err := s.Serve(l); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// oneConn is a listener that has one connection.
type oneConn struct {
	conn chan net.Conn
	over chan struct{}
	addr net.Addr
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.over:
		return nil, io.EOF
	}
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.addr }

type serving struct{ o Objects }

func (s serving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	var err error
	switch r.Method {
	case http.MethodPut:
		err = s.o.Create(name, func(w io.Writer) error { _, err := io.Copy(w, r.Body); return err })
	case http.MethodDelete:
		err = s.o.Remove(name)
	default:
		if r.URL.Query().Has("list") {
			var names []string
			if names, err = s.o.List(name); err == nil {
				err = json.NewEncoder(w).Encode(names)
			}
			break
		}
		var from int64
		if from, err = strconv.ParseInt(r.URL.Query().Get("from"), 10, 64); err == nil {
			err = s.read(w, name, from)
		}
	}
	if err == nil {
		return
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		w.Header().Set(kindHeader, kindExist)
	case errors.Is(err, fs.ErrNotExist):
		w.Header().Set(kindHeader, kindMissing)
	}
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

func (s serving) read(w http.ResponseWriter, name string, from int64) error {
	f, err := s.o.Read(name, from)
	if err != nil {
		return err
	}
	n, err := io.Copy(w, f)
	if err = errors.Join(err, f.Close()); err != nil && n > 0 {
		_ = http.NewResponseController(w).Flush() // the other side sees the beginning, and that it is cut short
		panic(http.ErrAbortHandler)
	}
	return err
}

// Through is a store that other programs serve: dial connects to one.
func Through(dial func(ctx context.Context) (net.Conn, error)) Objects {
	return through{http.Client{Transport: &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		MaxConnsPerHost: throughConns, MaxIdleConnsPerHost: throughConns, IdleConnTimeout: throughIdle, DisableCompression: true,
	}}}
}

type through struct{ http.Client }

// ask sends a request. The caller closes the answer.
func (t through) ask(method, name, query string, body io.Reader) (io.ReadCloser, error) {
	u := url.URL{Scheme: "http", Host: "store", Path: "/" + name, RawQuery: query}
	q, err := http.NewRequest(method, u.String(), body)
	if err != nil {
		return nil, err
	}
	a, err := t.Do(q)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("the program bide-temporal, which speaks with the store, has ended: is it of the same version as bide?")
		}
		return nil, err
	}
	if a.StatusCode == http.StatusOK {
		return drained{a.Body}, nil
	}
	text, err := io.ReadAll(a.Body)
	if err = errors.Join(err, a.Body.Close()); err != nil {
		return nil, err
	}
	said := answered{text: cmp.Or(strings.TrimSpace(string(text)), a.Status)}
	switch a.Header.Get(kindHeader) {
	case kindExist:
		said.is = fs.ErrExist
	case kindMissing:
		said.is = fs.ErrNotExist
	}
	return nil, said
}

// answered is an error with the text of the other side.
type answered struct {
	text string
	is   error
}

func (a answered) Error() string { return a.text }
func (a answered) Unwrap() error { return a.is }

// drained is an answer whose connection is used again if little of the answer is left.
type drained struct{ io.ReadCloser }

func (d drained) Close() error {
	_, _ = io.CopyN(io.Discard, d.ReadCloser, 256<<10) // if more is left, the connection is closed
	return d.ReadCloser.Close()
}

func (t through) Create(name string, write func(io.Writer) error) error {
	r, w := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		err := write(w)
		wrote <- err
		_ = w.CloseWithError(err) // it never fails
	}()
	a, err := t.ask(http.MethodPut, name, "", r)
	_ = r.CloseWithError(io.ErrClosedPipe) // it never fails; what is not read yet is not needed
	if werr := <-wrote; werr != nil && !errors.Is(werr, io.ErrClosedPipe) {
		if a != nil {
			err = a.Close()
		}
		return errors.Join(werr, err)
	}
	if err != nil {
		return err
	}
	return a.Close()
}

func (t through) Read(name string, from int64) (io.ReadCloser, error) {
	return t.ask(http.MethodGet, name, "from="+strconv.FormatInt(from, 10), nil)
}

func (t through) List(folder string) (names []string, err error) {
	a, err := t.ask(http.MethodGet, folder, "list", nil)
	if err != nil {
		return nil, err
	}
	err = json.NewDecoder(a).Decode(&names)
	return names, errors.Join(err, a.Close())
}

func (t through) Remove(place string) error {
	a, err := t.ask(http.MethodDelete, place, "", nil)
	if err != nil {
		return err
	}
	return a.Close()
}
