package engine_test

import (
	"context"

	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/simulate"
)

// replayed replays a run under its own policy and gives the decisions that differ from the
// record.
func (r *ran) replayed(p simulate.Program) (wrong []string) {
	store, err := journal.OpenStore(r.home)
	if err != nil {
		return []string{err.Error()}
	}
	j, err := store.Read(r.sum.Run)
	if err != nil {
		return []string{err.Error()}
	}
	defer j.Close()
	rec, err := simulate.Record(context.Background(), j)
	if err != nil {
		return []string{err.Error()}
	}
	got, err := rec.Replay(context.Background(), p, 1)
	if err != nil {
		return []string{"replay: " + err.Error()}
	}
	for _, d := range got.Different {
		wrong = append(wrong, "replayed, "+d)
	}
	if got.Decisions == 0 {
		wrong = append(wrong, "nothing of what was decided is recorded")
	}
	return wrong
}
