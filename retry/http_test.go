package retry_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// serve gives the address of a server that hands every connection to f, and closes
// it afterwards.
func serve(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c)
			}()
		}
	}()
	return l.Addr().String()
}

// answering reads a request and writes a text.
func answering(text string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, text)
		}
	}
}

// reset has the connection end with a RST after f.
func reset(f func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		f(c)
		_ = c.(*net.TCPConn).SetLinger(0)
	}
}

// framed speaks HTTP/2: it waits for the headers of a request and writes frames.
func framed(frames ...[]byte) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
		_, _ = c.Write(frame(4, 0, 0, nil)) // SETTINGS
		for {
			head := make([]byte, 9)
			if _, err := io.ReadFull(c, head); err != nil {
				return
			}
			n := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
			if _, err := io.CopyN(io.Discard, c, n); err != nil {
				return
			}
			if head[3] == 1 { // HEADERS
				break
			}
		}
		for _, f := range frames {
			if _, err := c.Write(f); err != nil {
				return
			}
		}
	}
}

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	b := []byte{0, 0, byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

func words(n ...uint32) (b []byte) {
	for _, n := range n {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

var (
	ok200   = frame(1, 4, 1, []byte{0x88}) // HEADERS: END_HEADERS, :status 200
	someway = frame(0, 0, 1, []byte("half"))
)

// lost says how a request of HTTP is lost, and what kind of failure that is.
var lost = []struct {
	what  string
	serve func(net.Conn)
	h2    bool
	class string
}{
	{"closed before the headers", answering(""), false, "network"},
	{"reset before the headers", reset(answering("")), false, "network"},
	{"closed at once", func(net.Conn) {}, false, "network"},
	{"cut in the status line", answering("HTTP/1.1 20"), false, "network"},
	{"cut in the headers", answering("HTTP/1.1 200 OK\r\nContent-Le"), false, "network"},
	{"cut in the body", answering("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), false, "network"},
	{"reset in the body", reset(answering("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")), false, "network"},
	{"cut in a chunk", answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf"), false, "network"},
	{"cut between chunks", answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"), false, "network"},
	{"cut in the trailer", answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n0\r\nA: "), false, "network"},
	{"no HTTP at all", answering("220 mail.example.org ESMTP\r\n"), false, "network"},
	{"broken chunks", answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), false, "error"},
	{"too many redirects", answering("HTTP/1.1 302 Found\r\nLocation: /\r\nConnection: close\r\n\r\n"), false, "error"},

	{"HTTP/2 closed before the headers", framed(), true, "network"},
	{"HTTP/2 closed in the body", framed(ok200, someway), true, "network"},
	{"the stream is reset before the headers", framed(frame(3, 0, 1, words(2))), true, "network"},
	{"the stream is reset in the body", framed(ok200, someway, frame(3, 0, 1, words(2))), true, "network"},
	{"the stream is cancelled by the server", framed(frame(3, 0, 1, words(8))), true, "network"},
	{"GOAWAY before the headers", framed(frame(7, 0, 0, words(1, 2))), true, "network"},
	{"GOAWAY in the body", framed(ok200, someway, frame(7, 0, 0, words(1, 2))), true, "network"},
	{"GOAWAY for a stream that will not be answered", framed(frame(7, 0, 0, words(0, 11))), true, "network"},
	{"frames that nobody can read", framed(frame(0, 0, 0, nil)), true, "network"},
	{"only HTTP/1.1 is spoken here", framed(frame(3, 0, 1, words(13))), true, "error"},
}

// TestLostRequests: whatever ends a connection before the answer is whole is of the
// network, whichever part of net/http says so.
func TestLostRequests(t *testing.T) {
	t.Parallel()
	for _, l := range lost {
		for _, method := range []string{"GET", "POST"} {
			t.Run(l.what+"/"+method, func(t *testing.T) {
				t.Parallel()
				tr := &http.Transport{Protocols: new(http.Protocols)}
				tr.Protocols.SetHTTP1(!l.h2)
				tr.Protocols.SetUnencryptedHTTP2(l.h2)
				check(t, tr, method, "http://"+serve(t, l.serve), l.class)
			})
		}
	}
}

// check makes a request and looks at the class of what comes back.
func check(t *testing.T, tr *http.Transport, method, target, class string) {
	t.Helper()
	err := ask(tr, method, target)
	if err == nil {
		t.Fatal("the request went well")
	}
	if got := driver.Class(err); got != class {
		t.Errorf("%v (%T): class %q, want %q", err, errors.Unwrap(err), got, class)
	}
	if got, want := retry.Transient(err), class != "error"; got != want {
		t.Errorf("%v: Transient is %v", err, got)
	}
}

func ask(tr *http.Transport, method, target string) error {
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(context.Background(), method, target, strings.NewReader(strings.Repeat("x", 10)))
	if err != nil {
		return err
	}
	if method == "GET" {
		req.Body, req.ContentLength, req.GetBody = nil, 0, nil
	}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return err
	}
	_, err = io.ReadAll(resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// TestLostOnAUsedConnection: a connection that was good a moment ago.
func TestLostOnAUsedConnection(t *testing.T) {
	t.Parallel()
	tr := &http.Transport{}
	target := "http://" + serve(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for i := range 2 {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if i == 0 {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		}
	})
	resp, err := (&http.Client{Transport: tr}).Post(target, "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	check(t, tr, "POST", target, "network")
}

// TestSilentServer: a server that does not answer a ping of HTTP/2 is gone.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	defer close(over)
	tr := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{SendPingTimeout: 20 * time.Millisecond, PingTimeout: 20 * time.Millisecond}}
	tr.Protocols.SetUnencryptedHTTP2(true)
	check(t, tr, "POST", "http://"+serve(t, func(c net.Conn) {
		framed()(c)
		<-over
	}), "network")
}

// TestLostInTLS: a handshake that is cut is of the network, a certificate that is not
// trusted and a server without TLS are not.
func TestLostInTLS(t *testing.T) {
	t.Parallel()
	greeted := func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }
	trusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	trusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	trusted.StartTLS()
	t.Cleanup(trusted.Close)
	for _, row := range []struct{ what, target, class string }{
		{"cut", "https://" + serve(t, greeted), "network"},
		{"cut by a reset", "https://" + serve(t, reset(greeted)), "network"},
		{"closed at once", "https://" + serve(t, func(net.Conn) {}), "network"},
		{"an alert", "https://" + serve(t, func(c net.Conn) {
			greeted(c)
			_, _ = c.Write([]byte{21, 3, 3, 0, 2, 2, 80}) // fatal, internal error
			_, _ = io.Copy(io.Discard, c)
		}), "network"},
		{"no TLS", "https://" + serve(t, func(c net.Conn) {
			greeted(c)
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}), "error"},
		{"a certificate that nobody has signed", trusted.URL, "error"},
	} {
		t.Run(row.what, func(t *testing.T) { check(t, &http.Transport{}, "GET", row.target, row.class) })
	}
}

// TestLostAtAProxy: a proxy that is not there, or hangs up.
func TestLostAtAProxy(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := l.Addr().String()
	l.Close()
	for what, proxy := range map[string]string{
		"refused":             refused,
		"closed":              serve(t, answering("")),
		"reset":               serve(t, reset(answering(""))),
		"the tunnel is cut":   serve(t, answering("HTTP/1.1 200 OK\r\n\r\n")),
		"cut in its headers":  serve(t, answering("HTTP/1.1 200 OK\r\nA")),
		"cut in its greeting": serve(t, answering("HTTP/1")),
	} {
		t.Run(what, func(t *testing.T) {
			tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}
			check(t, tr, "GET", "https://example.org/", "network")
		})
	}
}

// TestOtherEOFs: the end of a file is no failure of the network.
func TestOtherEOFs(t *testing.T) {
	t.Parallel()
	for _, err := range []error{io.EOF, fmt.Errorf("reading the list: %w", io.EOF), errors.New("http2: no such thing"), &url.Error{Op: "Get", URL: "x", Err: errors.New("unsupported protocol scheme")}} {
		if retry.Transient(err) || driver.Class(err) != "error" {
			t.Errorf("%v: class %q", err, driver.Class(err))
		}
	}
	if err := (&url.Error{Op: "Get", URL: "x", Err: context.Canceled}); retry.Transient(err) {
		t.Errorf("%v is transient", err)
	}
}
