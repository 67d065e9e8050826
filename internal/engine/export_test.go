package engine

import "github.com/bide-dev/bide/internal/step"

// LeaveOutCompanion makes the runs of this process start without a companion.
func LeaveOutCompanion() { noCompanion = true }

// WhenComposed lets f see the executor of a run before its first step runs.
func (o *Options) WhenComposed(f func(*step.Executor)) { o.composed = f }
