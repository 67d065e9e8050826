package action

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry/driver"
)

// maxBody is how long a response body may be where the step does not say.
const maxBody = 1 << 20

// BodyError is an answer that was expected, and whose body is longer than it may be.
type BodyError struct {
	Method, URL string
	Limit       int
}

func (e *BodyError) Error() string {
	return fmt.Sprintf("%s %s: the body is longer than max_body, %d bytes: raise max_body, or have output_file take the body, without a max_body, which then may be of any length", e.Method, e.URL, e.Limit)
}

// Request is one HTTP request with every value filled in.
type Request struct {
	Method, URL string
	Headers     [][2]string
	Body        string
	ContentType string // "": none is sent, unless Headers has it
	MaxBody     int    // how long the body of the answer may be; 0: 1 MiB
	// Expected says which answers are a success; nil: those of status 2xx.
	Expected func(status int) bool
}

// http makes the request of a step.
func (w *World) http(ctx context.Context, a *workflow.HTTP, c *Call) (Result, error) {
	q, err := expandRequest(a, c.Scope)
	if err != nil {
		return Result{Start: time.Now()}, &InputError{Err: err}
	}
	return w.Send(ctx, q, c)
}

// Send makes one request. An answer that was not expected is an *HTTPError
// with the server's Retry-After; a connection that failed is the error of
// package net, which the matchers know by its structure.
func (w *World) Send(ctx context.Context, q *Request, c *Call) (Result, error) {
	start := time.Now()
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, errHTTPTimeout)
		defer cancel()
	}
	req, err := newRequest(ctx, q)
	if err != nil {
		return Result{Start: start}, &InputError{Err: hidePieces(c.Mask, q.URL, err)}
	}
	resp, err := w.client(q, c.Mask).Do(req)
	if err != nil {
		return Result{Start: start, Duration: time.Since(start), ExitCode: 1}, w.requestFailed(ctx, q, c, err)
	}
	good := q.Expected == nil && resp.StatusCode/100 == 2 || q.Expected != nil && q.Expected(resp.StatusCode)
	res, err := readResponse(resp, q, c, good)
	res.Start, res.Duration = start, time.Since(start)
	if long := (*BodyError)(nil); errors.As(err, &long) {
		long.Method, long.URL = req.Method, req.URL.Redacted()
		return res, &InputError{Err: long}
	}
	if err != nil {
		return res, w.requestFailed(ctx, q, c, err)
	}
	if c.Stdout != nil && res.Output != "" {
		if _, err := io.WriteString(c.Stdout, res.Output+"\n"); err != nil {
			return res, err
		}
	}
	if good {
		return res, nil
	}
	res.ExitCode = 1
	e := unexpected(req.Method, req.URL, resp)
	if e.Body = c.Mask.String(res.Output); len(e.Body) > 1024 {
		e.Body = e.Body[:1024]
	}
	return res, e
}

// mostRedirects is how many a request follows, as net/http does.
const mostRedirects = 10

// client is what makes a request. Where a redirect leads to another server, that gets no
// header with a secret in it, nor a body.
func (w *World) client(q *Request, m *mask.Masker) *http.Client {
	c := w.HTTP
	if c == nil {
		c = standard()
	}
	own := *c
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if !sameServer(via[0].URL, req.URL) && m.Active() {
			for name, values := range req.Header {
				if slices.ContainsFunc(values, func(v string) bool { return m.String(v) != v }) {
					req.Header.Del(name)
				}
			}
			if req.ContentLength != 0 && m.String(q.Body) != q.Body {
				return fmt.Errorf("it is redirected to another server, %s, and its body has a secret in it, which is not sent there", req.URL.Host)
			}
		}
		switch {
		case c.CheckRedirect != nil:
			return c.CheckRedirect(req, via)
		case len(via) >= mostRedirects:
			return fmt.Errorf("stopped after %d redirects", mostRedirects)
		}
		return nil
	}
	return &own
}

// sameServer reports whether two addresses are of one server, or the second is where the
// first one is had with TLS.
func sameServer(a, b *url.URL) bool {
	if !strings.EqualFold(a.Hostname(), b.Hostname()) {
		return false
	}
	return a.Scheme == b.Scheme && portOf(a) == portOf(b) || a.Scheme == "http" && b.Scheme == "https" && portOf(a) == "80" && portOf(b) == "443"
}

func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

// unexpected is the error of an answer, but for its body.
func unexpected(method string, target *url.URL, resp *http.Response) *HTTPError {
	e := &HTTPError{Method: method, URL: target.Redacted(), Status: resp.StatusCode}
	if h := resp.Header.Get("Retry-After"); h != "" {
		e.After, e.HasAfter = driver.ParseRetryAfter(h, time.Now())
	}
	return e
}

// standard is the client of requests where there is no other. What a proxy answers
// instead of making a tunnel is an *HTTPError: net/http would give its reason alone, in
// words.
var standard = sync.OnceValue(func() *http.Client {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultClient // of a program that has put another in its place
	}
	t = t.Clone()
	t.OnProxyConnectResponse = func(_ context.Context, proxy *url.URL, req *http.Request, resp *http.Response) error {
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		return unexpected(req.Method, proxy, resp)
	}
	return &http.Client{Transport: t}
})

var errHTTPTimeout = errors.New("the request timed out")

// requestFailed keeps apart the attempt's own timeout, an interrupt and a
// failed connection.
func (w *World) requestFailed(ctx context.Context, q *Request, c *Call, err error) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errHTTPTimeout):
		return &TimeoutError{After: c.Timeout}
	case cause != nil:
		return cause
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("%w: the server closed the connection without an answer", err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("%w: the connection ended before the whole answer was there", err)
	}
	return hidePieces(c.Mask, q.URL, err)
}

// hidePieces hides the parts of a secret in an error about a URL. Where a secret has a
// character that parts a URL, such as a slash, the error quotes a part of it, as a port or
// a host.
func hidePieces(m *mask.Masker, url string, err error) error {
	pieces := m.Pieces(url, "/?#@:[]%")
	if len(pieces) == 0 {
		return err
	}
	text := m.String(err.Error())
	for _, piece := range pieces {
		text = strings.ReplaceAll(text, piece, mask.Hidden)
	}
	return &hiddenError{text, err}
}

// hiddenError is an error in other words.
type hiddenError struct {
	text string
	error
}

func (e *hiddenError) Error() string { return e.text }

func (e *hiddenError) Unwrap() error { return e.error }

// expandRequest fills in the values of a step.
func expandRequest(a *workflow.HTTP, sc template.Scope) (*Request, error) {
	q := &Request{Method: a.Method, MaxBody: a.MaxBody}
	if len(a.Expect) > 0 {
		q.Expected = func(status int) bool { return expected(a.Expect, status) }
	}
	var err error
	if q.URL, err = expandURL(a.URL, sc); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	kind := ""
	for _, h := range a.Headers {
		v, err := h.Value.Expand(sc)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", h.Name, err)
		}
		q.Headers = append(q.Headers, [2]string{h.Name, v})
		if textproto.CanonicalMIMEHeaderKey(h.Name) == "Content-Type" {
			kind = v
		}
	}
	switch {
	case a.JSON != nil:
		v, err := Expand(a.JSON, sc)
		if err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		q.Body, q.ContentType = value.JSON(v), "application/json"
	case a.Body != nil:
		if q.Body, err = expandBody(a.Body, kind, sc); err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
	}
	return q, nil
}

func newRequest(ctx context.Context, q *Request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, q.Method, q.URL, strings.NewReader(q.Body))
	if err != nil {
		return nil, err
	}
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return nil, fmt.Errorf("url: %q does not begin with http:// or https://", q.URL)
	}
	if q.ContentType != "" {
		req.Header.Set("Content-Type", q.ContentType)
	}
	req.Header.Set("User-Agent", "bide")
	for _, h := range q.Headers {
		name, v := h[0], h[1]
		if strings.ContainsAny(v, "\r\n\x00") {
			return nil, fmt.Errorf("header %s: its value has a line end in it", name)
		}
		if textproto.CanonicalMIMEHeaderKey(name) == "Host" {
			req.Host = v
		} else {
			req.Header.Set(name, v)
		}
	}
	return req, nil
}

// readResponse reads the answer to a request. The body of one that is good is had whole, or the
// error is a *BodyError, unless nothing reads it; of another one its beginning is enough.
func readResponse(resp *http.Response, q *Request, c *Call, good bool) (res Result, err error) {
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	res = Result{Status: resp.StatusCode, Header: map[string]string{}}
	for k := range resp.Header {
		res.Header[strings.ToLower(k)] = resp.Header.Get(k)
	}
	limit := cmp.Or(q.MaxBody, maxBody)
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	switch long := len(body) > limit; {
	case err != nil || !long:
	case good && c.Whole && q.MaxBody == 0 && c.Spill != nil:
		return res, res.spill(io.MultiReader(bytes.NewReader(body), resp.Body), c.Spill)
	case good && !c.Unread:
		return res, &BodyError{Limit: limit}
	default:
		res.Cut = good
		body = append(body[:limit], fmt.Sprintf("\n… the rest is left out: the body is longer than %d bytes …", limit)...)
	}
	res.Output, res.Ending = cutEnding(string(body))
	return res, err
}

// spill has an output that is too large to keep in the file for such, and its head and tail in
// the result, as of a command.
func (r *Result) spill(from io.Reader, open func(string) (proc.File, error)) error {
	f, err := open("stdout")
	if err != nil {
		return err
	}
	sum, kept := sha256.New(), ends{limit: proc.DefaultLimit / 2}
	r.StdoutSize, err = io.Copy(io.MultiWriter(f, sum, &kept), from)
	r.StdoutFile, r.Digest = f.Name(), hex.EncodeToString(sum.Sum(nil))
	o := proc.Output{Head: kept.head, Tail: kept.last(), Size: r.StdoutSize, Truncated: true}
	r.Output, r.Ending = cutEnding(o.String())
	return errors.Join(err, f.Close())
}

// ends keeps the first and the last bytes that are written to it, limit of each.
type ends struct {
	limit      int
	head, tail []byte
}

func (e *ends) Write(b []byte) (int, error) {
	n := len(b)
	if room := min(e.limit-len(e.head), n); room > 0 {
		e.head, b = append(e.head, b[:room]...), b[room:]
	}
	if e.tail = append(e.tail, b...); len(e.tail) > 2*e.limit {
		e.tail = append(e.tail[:0], e.last()...)
	}
	return n, nil
}

func (e *ends) last() []byte { return e.tail[max(0, len(e.tail)-e.limit):] }

func expected(ranges []workflow.StatusRange, status int) bool {
	return slices.ContainsFunc(ranges, func(r workflow.StatusRange) bool { return status >= r.From && status <= r.To })
}

// Expand gives a value of a file with its templates expanded: a text that is
// one reference becomes the value it names, any other text becomes a string.
func Expand(v any, sc template.Scope) (any, error) {
	switch v := v.(type) {
	case *template.Text:
		if got, ok := v.Value(sc); ok {
			return got.V, nil
		}
		return v.Expand(sc)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			x, err := Expand(e, sc)
			if err != nil {
				return nil, err
			}
			out[i] = x
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			x, err := Expand(e, sc)
			if err != nil {
				return nil, err
			}
			out[k] = x
		}
		return out, nil
	}
	return v, nil
}
