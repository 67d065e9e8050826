package guardgrpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/bide-dev/bide/circuit"
	guardgrpc "github.com/bide-dev/bide/contrib/grpc"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/retry"
)

// A call that cannot be answered in time is not sent, nor tried again, nor counted
// by the breaker.
func TestDeadline(t *testing.T) {
	h := &health{answer: func(ctx context.Context, _ int32) error {
		if _, ok := ctx.Deadline(); !ok {
			return errors.New("the deadline did not travel")
		}
		time.Sleep(200 * time.Millisecond) // a server of its own has no virtual time
		return nil
	}}
	b := circuit.Must(circuit.New(circuit.Config{FailureThreshold: 1}))
	g := guard.Must(guard.New(retry.Policy{Attempts: 5, If: guardgrpc.Transient}, b))
	c := connect(t, h, nil, grpc.WithChainUnaryInterceptor(guardgrpc.UnaryClient(g), guardgrpc.Deadline()))
	call := func(left time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), left)
		defer cancel()
		return check(ctx, c)
	}
	if err := call(time.Minute); err != nil {
		t.Fatal(err)
	}
	err := call(150 * time.Millisecond)
	if status.Code(err) != codes.DeadlineExceeded || h.calls.Load() != 1 || b.State() != circuit.Closed {
		t.Errorf("%v after %d calls; the breaker is %v", err, h.calls.Load(), b.State())
	}
	if err := call(time.Minute); err != nil || h.calls.Load() != 2 {
		t.Errorf("%v after %d calls", err, h.calls.Load())
	}
}

// Two servers in a row, each of which tries the next four times: the retries of the
// caller are not multiplied.
func TestRetriesTravel(t *testing.T) {
	g := guard.Must(guard.New(retry.Policy{Attempts: 4}))
	down := &health{answer: func(context.Context, int32) error { return status.Error(codes.Unavailable, "down") }}
	receive := []grpc.ServerOption{grpc.UnaryInterceptor(guardgrpc.UnaryServer(guard.Must(guard.New())))}
	last := serve(t, down, g, receive...)
	between := &health{answer: func(ctx context.Context, _ int32) error { return check(ctx, last) }}
	c := serve(t, between, g, receive...)
	if err := check(retry.WithRetries(t.Context(), 3), c); status.Code(err) != codes.Unavailable || between.calls.Load() != 4 || down.calls.Load() != 7 {
		t.Errorf("%v after %d and %d calls", err, between.calls.Load(), down.calls.Load())
	}
	between.calls.Store(0)
	down.calls.Store(0)
	if err := check(t.Context(), c); status.Code(err) != codes.Unavailable || between.calls.Load() != 4 || down.calls.Load() != 16 {
		t.Errorf("unbounded: %v after %d and %d calls", err, between.calls.Load(), down.calls.Load())
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "retries-left", "many")
	if _, err := c.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}
