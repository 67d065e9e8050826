package step

import (
	"errors"
	"fmt"

	"github.com/bide-dev/bide/internal/diag"
)

// Listed is what the list of a map or of a foreach came to.
type Listed struct {
	Items int    // that are to run
	Read  int    // that there were before some were left out
	Why   string // why there are none, where that is known
	// Astray says that the path into their source is a slip: it finds nothing there, and another
	// would. Why says which.
	Astray bool
	Said   string // what the command that gave them wrote to standard error
	// Unsure says that a command in its pipe may have failed (see action.Result).
	Unsure bool
}

// Enough is nil where the items are as many as there must be. A command that gave none and
// wrote to standard error has failed, as a shell reports of a pipe only how its last command
// ended; mayBeNone says that the file names how many there must be, so that 0 is enough.
// where is the place for min_items in the file.
func (l Listed) Enough(least int, mayBeNone bool, where string) error {
	switch {
	case l.Items < least:
		text := fmt.Sprintf("%s, and min_items is %d", diag.Count(l.Items, "item"), least)
		if l.Why != "" {
			text += ": " + l.Why
		}
		if l.Said != "" {
			text += "; the command wrote to standard error: " + l.Said
		}
		return errors.New(text)
	case l.Read == 0 && l.Said != "" && !mayBeNone:
		return fmt.Errorf("its command gave no item, and wrote to standard error: %s; where a list without items is no failure, write min_items: 0 %s", l.Said, where)
	case l.Read == 0 && l.Astray && !mayBeNone:
		return fmt.Errorf("%s; where a list without items is no failure, write min_items: 0 %s", l.Why, where)
	}
	return nil
}

// Doubt is what is to be told of items that may not be all, as a command of a pipe may have
// failed; "" where nothing speaks for that.
func (l Listed) Doubt() string {
	if !l.Unsure || l.Said == "" || l.Read == 0 {
		return ""
	}
	return fmt.Sprintf("wrote to standard error: %s; of a pipe, sh reports only how the last command ended, so that the %s may not be all", l.Said, diag.Count(l.Read, "item"))
}
