package guard

import (
	"context"
	"log/slog"

	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Log tells a logger what happens: failed attempts
// at the level of information, refusals and ends without success as warnings,
// waits and ends after a retry at the level of debugging. Of a call
// that succeeds at once nothing is said.
func Log(logger *slog.Logger) Layer {
	if logger == nil {
		return observer(nil)
	}
	return Observe(func(e retry.Event) { log(logger, e) })
}

func log(logger *slog.Logger, e retry.Event) {
	say := func(level slog.Level, message string, attrs ...slog.Attr) {
		logger.LogAttrs(context.Background(), level, message, append([]slog.Attr{slog.Int("attempt", e.Attempt)}, attrs...)...)
	}
	switch e.Type {
	case retry.AttemptFailed:
		say(slog.LevelInfo, "attempt failed", slog.Duration("took", e.Duration), slog.String("class", driver.Class(e.Err)), slog.Any("error", e.Err))
	case retry.WaitScheduled:
		say(slog.LevelDebug, "next attempt scheduled", slog.Duration("delay", e.Delay), slog.String("source", e.Source.String()))
	case retry.Queued:
		say(slog.LevelDebug, "attempt waits", slog.String("source", e.Source.String()), slog.Duration("delay", e.Delay))
	case retry.Refused:
		say(slog.LevelWarn, "attempt refused", slog.Any("error", e.Err))
	case retry.Finished:
		switch {
		case e.Reason != driver.ReasonNone:
			say(slog.LevelWarn, "call failed", slog.String("reason", e.Reason.String()), slog.Duration("took", e.Duration), slog.Any("error", e.Err))
		case e.Attempt > 1:
			say(slog.LevelDebug, "call succeeded", slog.Duration("took", e.Duration))
		}
	}
}
