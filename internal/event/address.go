package event

import (
	"iter"
	"strings"
)

// # Addresses
//
// The address of a step says where in a run it is executed. It is its path in its own file,
// and behind that the rounds of the loops and handlers that it is in:
//
//	commands[1].do[0]@3                the step in the fourth round of the foreach commands[1]
//	commands[1].do[0].on_failure[0]@3#1    its handler, in the first round of that
//	commands[0]/commands[2]            the first step of the file that the step commands[2] calls
//	commands[0]@3/commands[1].do[1]@3  the same, of a call in a foreach: the rounds of the caller, and the caller
//	commands[2]/sum                    the call sum of the pipeline that the step commands[2] runs
//	commands[0]/sum                    the first step of the workflow that is the module of a pipeline's call sum
//
// The last two have the same form. What is around a step is therefore looked for among the addresses
// that a run has recorded: what is around one is recorded before it.

// marks begin the parts of an address that follow the path in the file.
const marks = "@#%/"

// InFile gives the path that a step has in its own file: its address without all that
// follows that.
func InFile(address string) string {
	if i := strings.IndexAny(address, marks); i >= 0 {
		return address[:i]
	}
	return address
}

// Called gives the path of a step in its own file, and before it those of the steps that called
// that file and the ones around it, the outermost first. It is nil for a call of a pipeline.
func Called(address string) []string {
	// Who is called by x in a file that y calls has x, and where x is itself: behind "/y".
	parts := strings.Split(address, "/")
	if len(parts)&(len(parts)-1) != 0 {
		return nil
	}
	var paths []string
	for i := 1; i < len(parts); i *= 2 {
		paths = append(paths, InFile(parts[i]))
	}
	return append(paths, InFile(parts[0]))
}

// Around gives the addresses that a step or a round may be directly in, in the order in which they
// are to be looked for: the first one that is there is the right one. The loop of a round is what
// RoundOf gives.
func Around(address string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for at := range AroundInFile(address) {
			if !yield(at) {
				return
			}
		}
		for i := range len(address) { // who called its file: it has the same rounds
			if address[i] != '/' {
				continue
			}
			rounds := address[len(InFile(address)):i]
			for caller := range outwards(address[i+1:]) {
				if strings.HasSuffix(caller, rounds) && !yield(caller) {
					return
				}
			}
		}
		for i := len(address) - 1; i > 0; i-- { // who runs its pipeline: it has the same rounds
			if address[i] != '/' {
				continue
			}
			runs := address[:i]
			call, same := strings.CutSuffix(address[i+1:], runs[len(InFile(runs)):])
			if same && !strings.Contains(call, "/") && !yield(runs) {
				return
			}
		}
	}
}

// AroundInFile is Around without who called the file of the step.
func AroundInFile(address string) iter.Seq[string] {
	return func(yield func(string) bool) {
		base := InFile(address)
		for dot := strings.LastIndexByte(base, '.'); dot > 0; dot = strings.LastIndexByte(base[:dot], '.') {
			for rounds := range outwards(address[len(base):]) {
				if !yield(base[:dot] + rounds) {
					return
				}
			}
		}
	}
}

// outwards gives what ends with rounds: as it is, and without the last round, and so on.
func outwards(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			if !yield(text) {
				return
			}
			at := strings.LastIndexAny(text, marks)
			if at < 0 || text[at] == '/' {
				return
			}
			text = text[:at]
		}
	}
}

// Enclosing gives the steps that a step is in, of what known knows, from the inside out.
func Enclosing(address string, known func(address string) bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		for at := address; at != ""; {
			next := ""
			for a := range Around(at) {
				if known(a) {
					next = a
					break
				}
			}
			if next == "" || !yield(next) {
				return
			}
			at = next
		}
	}
}
