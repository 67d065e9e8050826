package mapper

import (
	"context"
	"fmt"
	"sync"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

const (
	// ahead is how many items are read at once.
	ahead = 256
	// keepItems and keepBytes bound the items that are kept for their next attempt.
	keepItems = 256
	keepBytes = 1 << 20
)

// feed reads work items: those that begin, which they do in their order, many at
// once ahead of their time; one that is tried again by itself, unless it was
// kept.
type feed struct {
	read func(ctx context.Context, from, limit int) ([]event.Item, error)

	mu    sync.Mutex
	ahead map[int]event.Item
	next  int // the first that was never read ahead
	kept  map[int]event.Item
	bytes int // of the kept ones
}

// item gives an item, from 1.
func (f *feed) item(ctx context.Context, index int) (event.Item, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if it, ok := f.ahead[index]; ok {
		delete(f.ahead, index)
		return it, nil
	}
	if it, ok := f.kept[index]; ok {
		delete(f.kept, index)
		f.bytes -= len(it.Data)
		return it, nil
	}
	limit := 1
	if index >= f.next {
		limit = ahead
	}
	list, err := f.read(ctx, index, limit)
	if err == nil && (len(list) == 0 || list[0].Index != index) {
		err = fmt.Errorf("%w: %d", journal.ErrNoItem, index)
	}
	if err != nil {
		return event.Item{Index: index}, err
	}
	if limit == 1 {
		return list[0], nil
	}
	// What is left of the chunk before was finished in an earlier life, but for
	// what the other workers are about to ask for.
	for i := range f.ahead {
		if i < index-ahead {
			delete(f.ahead, i)
		}
	}
	if f.ahead == nil {
		f.ahead = make(map[int]event.Item, ahead)
	}
	for _, it := range list[1:] {
		f.ahead[it.Index] = it
	}
	f.next = list[len(list)-1].Index + 1
	return list[0], nil
}

// keep keeps an item for its next attempt, if there is room.
func (f *feed) keep(it event.Item) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if it.Data == nil || len(f.kept) >= keepItems || f.bytes+len(it.Data) > keepBytes {
		return
	}
	if f.kept == nil {
		f.kept = map[int]event.Item{}
	}
	f.kept[it.Index] = it
	f.bytes += len(it.Data)
}

// forget drops what is known of an item: its data has changed.
func (f *feed) forget(index int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if it, ok := f.kept[index]; ok {
		delete(f.kept, index)
		f.bytes -= len(it.Data)
	}
	delete(f.ahead, index)
}
