package guardgrpc

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/bide-dev/bide/internal/fastest"
	"github.com/bide-dev/bide/retry"
)

// Deadline returns an interceptor that does not send a call which has less time left
// than the fastest answer of its method took: the answer is DeadlineExceeded at once.
// No attempt follows, and a breaker does not count it. Its place is within the guard,
// and one is to be used for one target.
//
//	grpc.WithChainUnaryInterceptor(guardgrpc.UnaryClient(g), guardgrpc.Deadline())
func Deadline() grpc.UnaryClientInterceptor {
	var answers fastest.Answers
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		began := time.Now()
		if deadline, ok := ctx.Deadline(); ok {
			left := max(deadline.Sub(began), 0)
			if least := answers.Least(method); left == 0 || left < least {
				return retry.Permanent(&tooLate{method: method, left: left, least: least})
			}
		}
		err := invoke(ctx, method, request, reply, conn, options...)
		if err == nil {
			answers.Took(method, time.Since(began))
		}
		return err
	}
}

// tooLate is the error of a call that was not sent.
type tooLate struct {
	method      string
	left, least time.Duration
}

func (e *tooLate) Error() string {
	return fmt.Sprintf("%v are left, and no answer of %s took less than %v", e.left, e.method, e.least)
}

// GRPCStatus is how package status finds the status.
func (e *tooLate) GRPCStatus() *status.Status { return status.New(codes.DeadlineExceeded, e.Error()) }

// Is reports whether target is context.DeadlineExceeded.
func (e *tooLate) Is(target error) bool { return target == context.DeadlineExceeded }

const retriesKey = "retries-left"

// sendRetries tells the server how many retries it may make itself: none with what is
// a retry.
func sendRetries(ctx context.Context, number int) context.Context {
	left, bounded := retry.RetriesLeft(ctx)
	if !bounded {
		return ctx
	}
	if number > 1 {
		left = 0
	}
	sent, _ := metadata.FromOutgoingContext(ctx)
	sent = sent.Copy()
	sent.Set(retriesKey, strconv.Itoa(left))
	return metadata.NewOutgoingContext(ctx, sent)
}

// receiveRetries bounds the retries of a handler as its caller asks.
func receiveRetries(ctx context.Context) (context.Context, error) {
	values := metadata.ValueFromIncomingContext(ctx, retriesKey)
	if len(values) == 0 {
		return ctx, nil
	}
	n, err := strconv.ParseUint(values[0], 10, 31)
	if err != nil || len(values) > 1 {
		return nil, status.Errorf(codes.InvalidArgument, "the metadata %s is %q; it must be one number of retries, as in 3", retriesKey, values)
	}
	return retry.WithRetries(ctx, int(n)), nil
}
