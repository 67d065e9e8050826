// Package guardhttp puts a guard around HTTP requests.
//
//	client := &http.Client{Transport: guardhttp.Transport(nil, g)}
//
// An answer with the status 429, or 500 to 599 except 501, is a failed attempt,
// with the wait that its Retry-After asks for. A request is repeated only if
// that can do no harm: its method is idempotent (RFC 9110, section 9.2.2) or it
// has an Idempotency-Key, and its body, if it has one, can be sent again (GetBody,
// which http.NewRequest sets for the usual readers). What is not repeated is
// still guarded by breaker, limits and timeout. A POST without such a key is
// neither repeated nor hedged.
//
// A breaker counts each of these answers, 429 as well as 5xx, and each error of a
// request that its caller did not cancel; circuit.Config.IgnoreIf leaves some out. A
// guard has one breaker for all hosts: the example PerHost has a guard for each.
//
// When no attempt is left, the client gets the last answer as it came, whatever
// its status, as from any transport; [Check] makes an error of one. Answers that
// failed are drained where that takes no time, so that their connections serve
// again; one beside which another was faster is closed.
//
// The base transport sees each attempt, and so can log or sign it anew: its number
// is what retry.AttemptFrom finds in the context of the request.
//
// [Hedge] is a base that makes a second request beside a slow one, over another
// connection:
//
//	client := &http.Client{Transport: guardhttp.Transport(guardhttp.Hedge(nil, h), g)}
//
// Where [retry.WithRetries] bounds the retries of a request's context, their number
// goes with it; [ReceiveRetries] takes it.
//
// A guard.Timeout bounds the time until the header of the answer; the body is
// read under the request's own context, which http.Client.Timeout bounds too. Slots are given back with the header.
package guardhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/internal/carried"
	"github.com/bide-dev/bide/internal/permanent"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Transport returns a round tripper that makes each attempt with base, nil for
// http.DefaultTransport, under the guard, which must not be nil.
func Transport(base http.RoundTripper, g *guard.Guard) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{base: base, guard: g}
}

// Hedge returns a round tripper that makes a second request beside a slow one, as h
// says, and takes the answer that comes first. A request that may not be repeated
// is made once. nil is http.DefaultTransport.
//
// The second goes over another connection, where base is a *http.Transport or one of
// this package's around it: over HTTP/2 the two would share the one that is stuck.
func Hedge(base http.RoundTripper, h *hedge.Hedge) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &hedged{bases: [2]http.RoundTripper{base, elsewhere(base)}, hedge: h}
}

// Until returns a round tripper whose answers fail, with a *[retry.UnmetError],
// when ok does not accept them: what [retry.Until] is for a function. ok looks at
// status and header alone; the body of an answer that failed so is closed. nil is
// http.DefaultTransport.
//
//	guardhttp.Transport(guardhttp.Until(nil, ready), g)
func Until(base http.RoundTripper, ok func(*http.Response) bool) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &until{base: base, ok: ok}
}

type until struct {
	base http.RoundTripper
	ok   func(*http.Response) bool
}

// RoundTrip implements http.RoundTripper.
func (u *until) RoundTrip(request *http.Request) (*http.Response, error) {
	if u.ok == nil {
		closeBody(request)
		return nil, retry.Permanent(errors.New("guardhttp: the condition of Until is nil"))
	}
	answer, err := u.base.RoundTrip(request)
	if err != nil || u.ok(answer) {
		return answer, err
	}
	drain(answer)
	return nil, &retry.UnmetError{Value: answer}
}

type transport struct {
	base  http.RoundTripper
	guard *guard.Guard
}

type hedged struct {
	bases [2]http.RoundTripper // the second is for an attempt beside another
	hedge *hedge.Hedge
}

// StatusError is an answer whose status says that the request failed.
type StatusError struct {
	Method, URL string
	Status      int
	// After is what Retry-After asks for, if HasAfter.
	After    time.Duration
	HasAfter bool
	// Body is the beginning of the body, if [Check] has read it.
	Body string
}

// Error names the request and the status.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s %s: %d %s", e.Method, e.URL, e.Status, http.StatusText(e.Status))
	if e.Body != "" {
		text += ": " + e.Body
	}
	return text
}

// HTTPStatus returns the status.
func (e *StatusError) HTTPStatus() int { return e.Status }

// RetryAfter returns what the answer asks for.
func (e *StatusError) RetryAfter() (time.Duration, bool) { return e.After, e.HasAfter }

// Check returns nil for an answer with a status below 400. Of any other it
// reads the beginning of the body, closes it, and returns a *[StatusError], which
// is [retry.Permanent] unless another attempt may help.
func Check(answer *http.Response) error {
	if answer.StatusCode < 400 {
		return nil
	}
	e := statusError(answer)
	start, _ := io.ReadAll(io.LimitReader(answer.Body, 512)) // what came of it is enough
	e.Body = strings.TrimSpace(strings.ToValidUTF8(string(start), "\uFFFD"))
	drain(answer)
	if !failed(answer.StatusCode) && answer.StatusCode != http.StatusRequestTimeout {
		return retry.Permanent(e)
	}
	return e
}

func statusError(answer *http.Response) *StatusError {
	e := &StatusError{Status: answer.StatusCode}
	if r := answer.Request; r != nil {
		e.Method, e.URL = r.Method, r.URL.Redacted()
	}
	e.After, e.HasAfter = driver.ParseRetryAfter(answer.Header.Get("Retry-After"), time.Now())
	return e
}

// failed reports whether the status says that another attempt may do better.
func failed(status int) bool {
	return status == http.StatusTooManyRequests || status >= 500 && status <= 599 && status != http.StatusNotImplemented
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.guard == nil {
		closeBody(request)
		return nil, errors.New("guardhttp: the guard is nil")
	}
	e := &exchange{bases: [2]http.RoundTripper{t.base, t.base}, request: request, repeatable: repeatable(request), numbers: true}
	return e.answer(guard.Get(request.Context(), t.guard, e.attempt))
}

// RoundTrip implements http.RoundTripper.
func (h *hedged) RoundTrip(request *http.Request) (*http.Response, error) {
	if h.hedge == nil {
		closeBody(request)
		return nil, errors.New("guardhttp: the hedge is nil")
	}
	if !repeatable(request) {
		return h.bases[0].RoundTrip(request)
	}
	e := &exchange{bases: h.bases, request: request, repeatable: true}
	return e.answer(hedge.Get(request.Context(), h.hedge, e.attempt))
}

// answer is what the client gets of an exchange that is over: what came of it, or the
// answer that failed last.
func (e *exchange) answer(answer *http.Response, err error) (*http.Response, error) {
	request := e.request
	if err != nil && request.Context().Err() == nil {
		answer = e.last(err)
	}
	e.dropAllBut(answer)
	if e.attempts == 0 {
		closeBody(request)
	}
	if answer != nil {
		return answer, nil
	}
	return nil, err
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		request.Body.Close() // its error helps nobody: the request was not sent
	}
}

// repeatable reports whether the request may be sent twice, and can be.
func repeatable(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return false
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != ""
}

// exchange is one request with its attempts.
type exchange struct {
	bases      [2]http.RoundTripper
	request    *http.Request
	repeatable bool
	numbers    bool // attempts get their numbers

	mu       sync.Mutex
	attempts int
	running  [2]int           // by base
	answers  []*http.Response // not yet drained
	failures map[*StatusError]*http.Response
}

// attempt sends the request once. A request that is not repeatable and comes
// again, beside a slow first one, is refused.
func (e *exchange) attempt(ctx context.Context) (*http.Response, error) {
	number := e.begin()
	if number > 1 && !e.repeatable {
		return nil, permanent.Final(errors.New("guardhttp: the request may not be sent twice"))
	}
	request, sent, err := e.prepare(ctx, number)
	if err != nil {
		return nil, retry.Permanent(err)
	}
	base, ended := e.choose()
	returned := false
	defer func() {
		if ended(); !returned { // the base panics
			sent.headerIn()
			sent.end(nil)
		}
	}()
	answer, err := base.RoundTrip(request)
	returned = true
	inTime := sent.headerIn()
	if err == nil && !inTime { // the body would end in the middle
		answer.Body.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		sent.end(nil)
		return nil, e.final(err)
	}
	answer.Body = sent.body(answer.Body)
	return answer, e.keep(answer)
}

// begin counts an attempt and drains what the ones before have left.
func (e *exchange) begin() int {
	e.mu.Lock()
	before := make([]*http.Response, 0, len(e.failures))
	for _, answer := range e.failures {
		before = append(before, answer)
	}
	e.failures = nil
	e.attempts++
	number := e.attempts
	e.mu.Unlock()
	for _, answer := range before {
		drain(answer)
	}
	return number
}

// choose returns the base over which fewer attempts run, and what ends this one.
func (e *exchange) choose() (http.RoundTripper, func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := 0
	if e.running[1] < e.running[0] {
		i = 1
	}
	e.running[i]++
	return e.bases[i], func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.running[i]--
	}
}

// prepare returns the request of an attempt. Its context is the request's own,
// and ends with that of the attempt until the header is in.
func (e *exchange) prepare(ctx context.Context, number int) (*http.Request, *sending, error) {
	of := e.request.Context()
	if e.numbers {
		of = carried.WithNumber(of, number)
	}
	own, end := context.WithCancelCause(of)
	sent := &sending{end: end}
	sent.detach = context.AfterFunc(ctx, func() {
		if sent.decided.CompareAndSwap(false, true) {
			end(context.Cause(ctx))
		}
	})
	request := e.request.Clone(own)
	if e.numbers {
		sendRetries(request, number)
	}
	if number > 1 && e.request.GetBody != nil {
		again, err := e.request.GetBody()
		if err != nil {
			sent.headerIn()
			end(nil)
			return nil, nil, fmt.Errorf("guardhttp: the body cannot be sent again: %w", err)
		}
		request.Body = again
	}
	return request, sent, nil
}

// keep notes an answer, and returns the error of one that failed.
func (e *exchange) keep(answer *http.Response) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answers = append(e.answers, answer)
	if !failed(answer.StatusCode) {
		return nil
	}
	failure := statusError(answer)
	if e.failures == nil {
		e.failures = map[*StatusError]*http.Response{}
	}
	e.failures[failure] = answer
	return e.final(failure)
}

// final says of the error of a request that is not repeatable that no attempt
// follows.
func (e *exchange) final(err error) error {
	if e.repeatable {
		return err
	}
	return permanent.Final(err)
}

// last returns the answer that a final error is of, if it is of one.
func (e *exchange) last(err error) *http.Response {
	var failure *StatusError
	if !errors.As(err, &failure) {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failures[failure]
}

// dropAllBut closes every answer but one: at once that which another was faster
// than, whose body may take as long as it likes.
func (e *exchange) dropAllBut(kept *http.Response) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, answer := range e.failures {
		if answer != kept {
			drain(answer)
		}
	}
	for _, answer := range e.answers {
		if answer != kept {
			answer.Body.Close()
		}
	}
}

// sending is the context of an attempt.
type sending struct {
	detach  func() bool
	end     context.CancelCauseFunc
	decided atomic.Bool // the header is in, or the attempt has ended before
}

// headerIn makes the context that of the request alone, and reports whether the
// header came before the end of the attempt.
func (s *sending) headerIn() bool {
	first := s.decided.CompareAndSwap(false, true)
	s.detach()
	return first
}

// body wraps the body of an answer. That of a protocol that was switched to can be
// written to.
func (s *sending) body(of io.ReadCloser) io.ReadCloser {
	b := &body{ReadCloser: of, sent: s}
	if w, ok := of.(io.Writer); ok {
		return &connection{b, w}
	}
	return b
}

// body is that of an answer; with it ends the context of its request.
type body struct {
	io.ReadCloser
	sent *sending
}

// connection is the body of an answer 101.
type connection struct {
	*body
	io.Writer
}

// CloseWrite closes the half that is written to, where the connection has halves.
func (c *connection) CloseWrite() error {
	if half, ok := c.Writer.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close ends the context too.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.sent.end(nil)
	return err
}

// drainTime is how long the rest of a failed answer is waited for.
const drainTime = 100 * time.Millisecond

// drain reads what is left of an answer, if that is little and there soon, so
// that its connection can serve again, and closes it.
func drain(answer *http.Response) {
	if b, ok := answer.Body.(*body); ok {
		late := time.AfterFunc(drainTime, func() { b.sent.end(context.DeadlineExceeded) })
		defer late.Stop()
	}
	io.CopyN(io.Discard, answer.Body, 64<<10) // an error here ends the connection, as Close does
	answer.Body.Close()
}
