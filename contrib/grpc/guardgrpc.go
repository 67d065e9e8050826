// Package guardgrpc puts a guard around gRPC calls.
//
//	conn, err := grpc.NewClient(target,
//		grpc.WithUnaryInterceptor(guardgrpc.UnaryClient(g)),
//		grpc.WithStreamInterceptor(guardgrpc.StreamClient(g)))
//
// A call that fails is repeated as the guard's policy says; [Transient] accepts
// the codes after which that may help. The wait that a server asks for in the
// trailer grpc-retry-pushback-ms, or in a RetryInfo detail, is kept; a pushback
// that is negative or no number asks for no further attempt (gRFC A6). Errors
// that come back are what the server sent: status.Code finds their code.
//
// gRPC itself sends the deadline of a call. [Deadline] does not send a call that has
// less time left than the fastest answer of its method took. Where
// [retry.WithRetries] bounds the retries of a call's context, their number goes with
// it, in the metadata retries-left, and [UnaryServer] takes it, as
// guardhttp.ReceiveRetries does.
//
// Of a stream the guard has the opening alone: what has been sent on it cannot
// be sent again.
//
// [Hedge] makes a second call beside a slow one, within the guard:
//
//	grpc.WithChainUnaryInterceptor(guardgrpc.UnaryClient(g), guardgrpc.Hedge(h))
//
// [UnaryServer] guards a server's own handlers, to bound how many of them run;
// what a limit or a breaker refuses is answered with ResourceExhausted or
// Unavailable. Do not put a retry into a server's guard.
package guardgrpc

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

// Transient accepts the codes after which another attempt may help:
// Unavailable, ResourceExhausted, Aborted, and DeadlineExceeded of an attempt.
var Transient = Codes(codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.DeadlineExceeded)

// Codes accepts errors with one of the codes.
func Codes(accepted ...codes.Code) retry.Matcher {
	accepted = slices.Clone(accepted)
	return func(err error) bool {
		var e *callError
		return errors.As(err, &e) && slices.Contains(accepted, status.Code(e.err))
	}
}

// callError is the error of a call, with what the server asks for.
type callError struct {
	err    error
	answer *answer
	after  time.Duration
	asked  bool
}

func (e *callError) Error() string { return e.err.Error() }
func (e *callError) Unwrap() error { return e.err }

// GRPCStatus is how package status finds the status.
func (e *callError) GRPCStatus() *status.Status { return status.Convert(e.err) }

// RetryAfter returns what the server asks for.
func (e *callError) RetryAfter() (time.Duration, bool) { return e.after, e.asked }

// RateLimited reports whether the server said that a resource is exhausted.
func (e *callError) RateLimited() bool { return status.Code(e.err) == codes.ResourceExhausted }

// Timeout reports whether the deadline was exceeded.
func (e *callError) Timeout() bool { return status.Code(e.err) == codes.DeadlineExceeded }

// Class is the code's name.
func (e *callError) Class() string { return "grpc_" + status.Code(e.err).String() }

// failed makes the error of an attempt. What says something about the request
// and nothing about the server is permanent.
func failed(err error, trailer metadata.MD) error {
	if err == nil {
		return nil
	}
	e := &callError{err: err}
	e.after, e.asked = pushback(err, trailer)
	switch status.Code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return retry.Permanent(e)
	}
	return e
}

// pushback is the wait that the server asks for.
func pushback(err error, trailer metadata.MD) (time.Duration, bool) {
	if values := trailer.Get("grpc-retry-pushback-ms"); len(values) > 0 {
		ms, bad := strconv.ParseInt(values[0], 10, 32)
		if bad != nil || ms < 0 || len(values) > 1 {
			return -1, true
		}
		return time.Duration(ms) * time.Millisecond, true
	}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok && info.RetryDelay != nil {
			return info.RetryDelay.AsDuration(), true
		}
	}
	return 0, false
}

// final is the error that the caller of a guarded call gets: what the server
// sent, if it sent one. ctx is the caller's.
func final(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	var e *callError
	if errors.As(err, &e) {
		return e.err
	}
	return refused(err)
}

// refused is the status of what breaker and limits refuse.
func refused(err error) error {
	switch {
	case errors.Is(err, circuit.ErrOpen):
		return status.Error(codes.Unavailable, err.Error())
	case errors.Is(err, limit.ErrRefused):
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	return err
}

// UnaryClient guards the calls of a client.
func UnaryClient(g *guard.Guard) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		number := 0
		err := guard.Do(ctx, g, func(ctx context.Context) error {
			var trailer metadata.MD
			number++
			return failed(invoke(sendRetries(ctx, number), method, request, reply, conn, append(slices.Clip(options), grpc.Trailer(&trailer))...), trailer)
		})
		return final(ctx, err)
	}
}

// StreamClient guards the opening of a client's streams. A guard.Timeout bounds
// the opening; the stream itself runs under the caller's context.
func StreamClient(g *guard.Guard) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := guard.Get(ctx, g, func(attempt context.Context) (grpc.ClientStream, error) {
			own, end := context.WithCancelCause(ctx)
			detach := context.AfterFunc(attempt, func() { end(context.Cause(attempt)) })
			stream, err := open(own, desc, conn, method, options...)
			if !detach() && err == nil { // its context has ended: it is no stream any more
				err = status.FromContextError(attempt.Err()).Err()
			}
			if err != nil {
				end(nil)
				return nil, failed(err, nil)
			}
			context.AfterFunc(stream.Context(), func() { end(nil) })
			return stream, nil
		})
		return stream, final(ctx, err)
	}
}

// UnaryServer guards the handlers of a server.
func UnaryServer(g *guard.Guard) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		ctx, err := receiveRetries(ctx)
		if err != nil {
			return nil, err
		}
		reply, err := guard.Get(ctx, g, func(ctx context.Context) (any, error) { return handle(ctx, request) })
		if err != nil {
			return nil, refused(err)
		}
		return reply, nil
	}
}
