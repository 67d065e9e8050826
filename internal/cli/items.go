package cli

import (
	"context"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/journal"
)

// itemPage is how many work items are read at once.
const itemPage = 1000

// nearAmong bounds the ids that are compared with one that was misspelt.
const nearAmong = 10_000

// findItem finds the work item with an id. Where there is none, its Index is 0
// and near is a hint to be put behind a message.
func findItem(ctx context.Context, r *journal.Reader, id string) (it journal.Item, near string, err error) {
	var ids []string
	for from := 1; ; {
		list, err := r.Items(ctx, from, itemPage)
		if err != nil {
			return journal.Item{}, "", err
		}
		for _, it := range list {
			if it.ID == id {
				return it, "", nil
			}
			if len(ids) < nearAmong {
				ids = append(ids, it.ID)
			}
		}
		if len(list) == 0 {
			break
		}
		from = list[len(list)-1].Index + 1
	}
	if len(ids) == 0 {
		return journal.Item{}, "; it has no work items", nil
	}
	if hint := diag.DidYouMean(id, ids); hint != "" {
		near = "; " + hint
	}
	return journal.Item{}, near, nil
}
