package action

import (
	"cmp"
	"context"
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
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry/driver"
)

// maxBody is how much of a response body is kept where the step does not say.
const maxBody = 1 << 20

// Request is one HTTP request with every value filled in.
type Request struct {
	Method, URL string
	Headers     [][2]string
	Body        string
	ContentType string // "": none is sent, unless Headers has it
	MaxBody     int    // how much of the answer is kept; 0: 1 MiB
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
	client := w.HTTP
	if client == nil {
		client = standard()
	}
	resp, err := client.Do(req)
	if err != nil {
		return Result{Start: start, Duration: time.Since(start), ExitCode: 1}, w.requestFailed(ctx, q, c, err)
	}
	res, err := readResponse(resp, q.MaxBody)
	res.Start, res.Duration = start, time.Since(start)
	if err != nil {
		return res, w.requestFailed(ctx, q, c, err)
	}
	if c.Stdout != nil && res.Output != "" {
		if _, err := io.WriteString(c.Stdout, res.Output+"\n"); err != nil {
			return res, err
		}
	}
	if q.Expected == nil && res.Status/100 == 2 || q.Expected != nil && q.Expected(res.Status) {
		return res, nil
	}
	res.ExitCode = 1
	e := unexpected(req.Method, req.URL, resp)
	if e.Body = c.Mask.String(res.Output); len(e.Body) > 1024 {
		e.Body = e.Body[:1024]
	}
	return res, e
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
	if q.URL, err = a.URL.Expand(sc); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	switch {
	case a.JSON != nil:
		v, err := Expand(a.JSON, sc)
		if err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		q.Body, q.ContentType = value.JSON(v), "application/json"
	case a.Body != nil:
		if q.Body, err = a.Body.Expand(sc); err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
	}
	for _, h := range a.Headers {
		v, err := h.Value.Expand(sc)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", h.Name, err)
		}
		q.Headers = append(q.Headers, [2]string{h.Name, v})
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

func readResponse(resp *http.Response, limit int) (Result, error) {
	limit = cmp.Or(limit, maxBody)
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	err = errors.Join(err, resp.Body.Close())
	res := Result{Status: resp.StatusCode, Header: map[string]string{}}
	for k := range resp.Header {
		res.Header[strings.ToLower(k)] = resp.Header.Get(k)
	}
	if len(body) > limit {
		body = append(body[:limit], fmt.Sprintf("\n… the rest is left out: the body is longer than %d bytes …", limit)...)
	}
	res.Output = strings.TrimRight(string(body), "\n")
	return res, err
}

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
