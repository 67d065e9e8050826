package step

import (
	"iter"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/value"
)

// What a step prints is stored once, in its log: where it is too large for the record, the
// variables that have it refer to that, and so does what is recorded of them.

// kept is a text that a variable has, in the log of an output.
type kept struct {
	action.Log
	actions Actions
	plain   bool // it tells a failure: [failure.Plain]
}

// Text reads it.
func (k *kept) Text() (string, error) {
	text, err := k.actions.Text(k.Log)
	if k.plain {
		text = failure.Plain(text)
	}
	return text, err
}

// plain is an output as a variable that tells a failure has it.
func plain(output any) any {
	if k, is := output.(*kept); is {
		return &kept{k.Log, k.actions, true}
	}
	return failure.Plain(output.(string))
}

// printed is what an attempt printed, as its variables have it.
type printed struct {
	res    *action.Result
	output any // a string, or kept
	stderr any
}

// printed finds the logs of what an attempt printed.
func (x *Executor) printed(res *action.Result) printed {
	p := printed{res: res, output: res.Output, stderr: res.Stderr}
	if log := res.OutputLog; log != nil && len(res.Output) > Inline {
		p.output = &kept{*log, x.Actions, false}
	}
	if log := res.StderrLog; log != nil && len(res.Stderr) > Inline {
		p.stderr = &kept{*log, x.Actions, false}
	}
	return p
}

// refer is a value for a variable: where it is the output, what stands for that.
func (p printed) refer(v any) any {
	if text, ok := v.(string); ok && len(text) > Inline && text == p.res.Output {
		return p.output
	}
	return v
}

// joined is texts, one a line, of as many bytes as a variable may have. Of those that
// are in logs it reads as many as are in it.
func (x *Executor) joined(texts []any) (string, error) {
	size := max(0, len(texts)-1)
	for _, t := range texts {
		if k, is := t.(*kept); is {
			size += k.Len
		} else {
			size += len(t.(string))
		}
	}
	head, err := gather(slices.Values(texts), size)
	if err != nil || mask.Fits(size, MaxVar) {
		return strings.Join(head, "\n"), err
	}
	tail, err := gather(func(yield func(any) bool) {
		for _, t := range slices.Backward(texts) {
			if !yield(t) {
				return
			}
		}
	}, size)
	slices.Reverse(tail)
	return x.Values.Mask().BoundEnds(strings.Join(head, "\n"), strings.Join(tail, "\n"), size, MaxVar), err
}

// gather reads texts until they are as long as a variable may be, or all of size bytes
// where that fits.
func gather(texts iter.Seq[any], size int) (list []string, err error) {
	have := 0
	for t := range texts {
		read, err := value.Read(t)
		if err != nil {
			return nil, err
		}
		list = append(list, read.(string))
		if have += len(read.(string)); have >= MaxVar && !mask.Fits(size, MaxVar) {
			break
		}
	}
	return list, nil
}

// takeKept takes out of variables what is in logs, and says where in them it was.
func takeKept(set map[string]any) (map[string]any, map[string]action.Log) {
	var logs map[string]action.Log
	out, _ := value.ReplaceKept(set, "", func(path string, k value.Kept) (any, error) {
		value.Put(&logs, path, k.(*kept).Log)
		return nil, nil
	})
	return out.(map[string]any), logs
}

// putKept is the opposite of takeKept.
func (x *Executor) putKept(set map[string]any, logs map[string]action.Log) {
	if len(logs) == 0 {
		return
	}
	at := make(map[string]value.Kept, len(logs))
	for path, log := range logs {
		at[path] = &kept{log, x.Actions, false}
	}
	value.PutKept(set, "", at)
}
