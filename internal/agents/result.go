package agents

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/step"
)

// collect takes an item's output: those of its steps, joined by line ends. A
// large one is kept as a file, in which the sizes of the parts find each step's.
func (x *Map) collect(a *attempt, ended []*step.Outcome) {
	var parts []string
	var file string // of the one step that printed something
	for i, out := range ended {
		if out == nil || out.Status == "" {
			continue // it was never reached
		}
		if kind := out.Kind(); kind != event.Skipped && slices.Index(event.Kinds, kind) > slices.Index(event.Kinds, a.Result.Kind) {
			a.Result.Kind = kind
		}
		s := x.Executor.File.Map.Template.Steps[i]
		text := x.Executor.Values.Mask().String(out.Result.Output)
		ends := out.Status == event.Succeeded || out.Status == event.Failed && !out.Tolerated // as its item
		if len(ended) > 1 || !ends || a.Tree != nil {                                         // see Result.Steps
			a.Result.Steps = append(a.Result.Steps, mapper.StepOutput{Step: s.Label(), ID: s.ID, Status: out.Status, Size: int64(len(text))})
		}
		if text == "" {
			continue
		}
		parts = append(parts, text)
		if file = ""; out.Result.Usage == nil { // an agent's file is its raw stream
			file = out.Result.StdoutFile
		}
	}
	text := strings.Join(parts, "\n")
	defer func() { a.Result.Output = a.Result.Raw.Take("/output", a.Result.Output) }()
	a.Result.Output = x.Executor.Clip(text)
	if len(text) <= step.Inline {
		return
	}
	a.Result.Size = int64(len(text))
	if len(parts) == 1 && file != "" {
		a.Result.File, a.Result.Output = file, x.Executor.Filed(text)
		return
	}
	name, err := x.Host.Keep(a.Item.Index, a.Attempt, "item", text)
	switch {
	case err != nil:
		x.Executor.NoteOnce("save", fmt.Sprintf("the output of item %s: %v", items.NameOf(x.Executor.Values.Mask(), a.Item), err))
	case name == "":
		x.Executor.NoteOnce("save", fmt.Sprintf("the output of item %s is %d bytes and kept nowhere: what reads it has its ends", items.NameOf(x.Executor.Values.Mask(), a.Item), len(text)))
	}
	if err == nil && name != "" {
		a.Result.File, a.Result.Output = name, x.Executor.Filed(text)
	}
}
