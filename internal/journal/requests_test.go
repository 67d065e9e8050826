package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestRetryRequests leaves, takes, withdraws and finds requests again.
func TestRetryRequests(t *testing.T) {
	s := newStore(t)
	j, err := s.Create(header())
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Read(j.Run())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if q, err := j.PeekRetry(); q != nil || err != nil || r.RetryRequested() {
		t.Fatalf("a request from nowhere: %+v, %v", q, err)
	}
	first := RetryRequest{PID: 7, Time: time.Now().UTC(), Of: []LetterRef{{1, 10}, {3, 12}}}
	if err := r.RequestRetry(first); err != nil {
		t.Fatal(err)
	}
	if err := r.RequestRetry(RetryRequest{PID: 8}); !errors.Is(err, ErrRequested) {
		t.Errorf("the second request: %v", err)
	}
	if q, err := j.PeekRetry(); err != nil || q.PID != 7 || !slices.Equal(q.Of, first.Of) {
		t.Errorf("%+v, %v", q, err)
	}
	if was, err := r.WithdrawRetry(); !was || err != nil {
		t.Errorf("withdrawn: %v, %v", was, err)
	}
	if taken, err := j.TakeRetry(); taken || err != nil {
		t.Errorf("a withdrawn request was taken: %v", err)
	}

	// One that was taken and not carried out, and one that came after it, are
	// both found by the next life.
	if err := r.RequestRetry(first); err != nil {
		t.Fatal(err)
	}
	if taken, err := j.TakeRetry(); !taken || err != nil {
		t.Fatal(taken, err)
	}
	if was, err := r.WithdrawRetry(); was || err != nil {
		t.Errorf("a request was withdrawn that was taken: %v", err)
	}
	if err := r.RequestRetry(RetryRequest{Of: []LetterRef{{5, 20}}}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if j, err = s.Open(j.Run()); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	got, err := j.LeftRetries()
	if want := []LetterRef{{1, 10}, {3, 12}, {5, 20}}; err != nil || !slices.Equal(got.Of, want) {
		t.Errorf("left are %v, %v; want %v", got, err, want)
	}
	if err := j.EndRetries(); err != nil {
		t.Fatal(err)
	}
	if got, err := j.LeftRetries(); len(got.Of) > 0 || err != nil {
		t.Errorf("after the end: %v, %v", got, err)
	}
	entries, err := filepath.Glob(filepath.Join(r.Dir(), "retry-*"))
	if err != nil || len(entries) > 0 {
		t.Errorf("files are left: %v, %v", entries, err)
	}

	if err := os.WriteFile(filepath.Join(r.Dir(), requestName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := j.PeekRetry(); err == nil {
		t.Error("half a request was read")
	}
}

// TestClaimRetry gives the right to retry to one at a time, beside the run's
// own lock.
func TestClaimRetry(t *testing.T) {
	s := newStore(t)
	j, err := s.Create(header())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	id, release, err := s.ClaimRetry(j.Run()[:20])
	if err != nil || id != j.Run() {
		t.Fatal(id, err)
	}
	var locked *LockedError
	if _, _, err := s.ClaimRetry(id); !errors.As(err, &locked) || !locked.Retry || locked.PID != os.Getpid() {
		t.Errorf("the second claim: %v", err)
	}
	if _, err := s.Open(id); !errors.As(err, &locked) || locked.Retry {
		t.Errorf("the run's own lock: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if _, release, err = s.ClaimRetry(id); err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.ClaimRetry("none"); !errors.As(err, new(*NotFoundError)) {
		t.Errorf("a run that is not there: %v", err)
	}
}

// TestStopRequest: a request to stop is for the process that has the run, is
// taken once, and the last one counts.
func TestStopRequest(t *testing.T) {
	s := newStore(t)
	j, err := s.Create(header())
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Read(j.Run())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if q, err := j.TakeStop(); q != nil || err != nil {
		t.Fatalf("a request from nowhere: %+v, %v", q, err)
	}
	for _, now := range []bool{false, true} {
		if err := r.RequestStop(StopRequest{PID: 7, Time: time.Now(), Now: now}); err != nil {
			t.Fatal(err)
		}
	}
	if q, err := j.TakeStop(); err != nil || q == nil || q.PID != 7 || !q.Now {
		t.Errorf("%+v, %v", q, err)
	}
	if q, err := j.TakeStop(); q != nil || err != nil {
		t.Errorf("taken twice: %+v, %v", q, err)
	}
	if entries, err := filepath.Glob(filepath.Join(r.Dir(), "stop-*")); err != nil || len(entries) > 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.RequestStop(StopRequest{}); !errors.Is(err, ErrNotInUse) {
		t.Errorf("nobody has the run: %v", err)
	}
}
