package event

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// QueueSize is how much a Queue holds in memory, in bytes; what is more waits in
// a file, which has SpillSize bytes at most.
const (
	QueueSize = 4 << 20
	SpillSize = 256 << 20
)

// restEvery is the shortest time between two looks at a queue to which nobody is
// in haste: to wake its goroutine for every event of a map over short commands
// costs more than all that it does with them.
const restEvery = 10 * time.Millisecond

// Queue is between a run and somebody who watches it. Emit never waits for
// the watcher: what a slow one has not taken yet waits in memory, and beyond
// QueueSize in a file, in its order. So a stuck terminal or pipe stops nothing
// but itself. Where that file is full or cannot be written, events are dropped,
// and counted; the journal has them.
//
// A Queue is safe for concurrent use. It must be closed.
type Queue struct {
	to    Sink
	dir   string
	wake  chan struct{} // there is something to do
	haste chan struct{} // somebody waits for it to be done
	done  chan struct{} // the goroutine has ended

	pressing atomic.Bool  // something is urgent
	inHand   atomic.Int64 // events that were taken, and which the sink has not had

	mu     sync.Mutex
	urgent []func()
	events []Event // from head on
	head   int
	size   int // of events
	limit  int // of size
	file   *os.File
	room   int64 // in file, which is written round and round
	end    int64 // of all that was written to file
	from   int64 // what has been read of it
	lost   int
	closed bool
	idle   []chan struct{} // who waits until nothing is left
}

// NewQueue begins to hand events to a sink, one at a time. dir is where the file
// for a slow watcher is made, "" for the system's directory of temporary files.
func NewQueue(to Sink, dir string) *Queue {
	q := &Queue{to: to, dir: dir, limit: QueueSize, room: SpillSize, wake: make(chan struct{}, 1), haste: make(chan struct{}, 1), done: make(chan struct{})}
	go q.run()
	return q
}

// Emit hands an event over.
func (q *Queue) Emit(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.end == q.from && q.size < q.limit {
		q.events = append(q.events, e)
		q.size += sizeOf(e)
		if len(q.events)-q.head == 1 {
			notify(q.wake)
		} else if q.size > q.limit/2 {
			notify(q.haste)
		}
		return
	}
	if err := q.spill(e); err != nil {
		q.lost++
	}
}

// Urgent has f called before the events that wait, not at the same time as the
// sink.
func (q *Queue) Urgent(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.urgent = append(q.urgent, f)
	q.pressing.Store(true)
	q.press()
}

// Flush waits until the sink has taken everything, or ctx ends.
func (q *Queue) Flush(ctx context.Context) {
	idle := make(chan struct{})
	q.mu.Lock()
	q.idle = append(q.idle, idle)
	q.press()
	q.mu.Unlock()
	select {
	case <-idle:
	case <-q.done:
	case <-ctx.Done():
	}
}

// Close waits until the sink has taken everything, or ctx ends, and gives the
// number of events that it has missed. Where ctx ends while the sink is stuck, the
// queue's goroutine continues to wait for it.
func (q *Queue) Close(ctx context.Context) (missed int) {
	q.mu.Lock()
	q.closed = true
	q.press()
	q.mu.Unlock()
	select {
	case <-q.done:
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost + int(q.inHand.Load()) + len(q.events) - q.head + q.waiting()
}

// press has the goroutine look at once.
func (q *Queue) press() {
	notify(q.wake)
	notify(q.haste)
}

// notify sends a signal; one that is not taken yet is enough.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func sizeOf(e Event) int { return 256 + len(e.Message) + len(e.Data) }

// run hands everything to the sink.
func (q *Queue) run() {
	defer close(q.done)
	defer q.drop()
	rest := time.NewTimer(0)
	defer rest.Stop()
	var batch []Event
	for more := true; more; {
		if batch, more = q.take(batch[:0]); len(batch) == 0 && more && !q.pressing.Load() {
			select {
			case <-rest.C:
			case <-q.haste: // and wake, sooner or later
			}
			<-q.wake
			rest.Reset(restEvery)
		}
		for _, e := range batch {
			q.hurry()
			q.to.Emit(e)
			q.inHand.Add(-1)
		}
		q.hurry()
	}
}

// hurry calls what is urgent.
func (q *Queue) hurry() {
	if !q.pressing.Load() {
		return
	}
	q.mu.Lock()
	urgent := q.urgent
	q.urgent = nil
	q.pressing.Store(false)
	q.mu.Unlock()
	for _, f := range urgent {
		f()
	}
}

// most is how many events are taken at once.
const most = 256

// take adds what is next to batch; more is false once nothing more comes.
func (q *Queue) take(batch []Event) (_ []Event, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(most, len(q.events)-q.head)
	batch = append(batch, q.events[q.head:q.head+n]...)
	for _, e := range batch {
		q.size -= sizeOf(e)
	}
	clear(q.events[q.head : q.head+n])
	if q.head += n; q.head > len(q.events)/2 {
		q.events, q.head = q.events[:copy(q.events, q.events[q.head:])], 0
	}
	for n == 0 && len(batch) < most && q.end > q.from {
		e, ok := q.unspill()
		if !ok {
			break
		}
		batch = append(batch, e)
	}
	q.inHand.Store(int64(len(batch)))
	if len(batch) > 0 {
		return batch, true
	}
	for _, c := range q.idle {
		close(c)
	}
	q.idle = nil
	return batch, !q.closed
}

// spill writes an event to the file. The caller has the lock.
func (q *Queue) spill(e Event) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if q.file == nil {
		if q.file, err = os.CreateTemp(q.dir, "bide-queue-*"); err != nil {
			return err
		}
		if err := os.Remove(q.file.Name()); err != nil {
			return err
		}
	}
	record := append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b))), b...)
	if q.end+int64(len(record)) > q.from+q.room {
		return errFull
	}
	if err := q.inRing(q.file.WriteAt, record, q.end); err != nil {
		return err
	}
	q.end += int64(len(record))
	return nil
}

var errFull = errors.New("the file is full")

// inRing reads or writes b at a place of all that is ever written: at the end of the
// file it continues at its beginning. The caller has the lock.
func (q *Queue) inRing(do func(b []byte, at int64) (int, error), b []byte, at int64) error {
	at %= q.room
	n := min(int64(len(b)), q.room-at)
	if _, err := do(b[:n], at); err != nil || n == int64(len(b)) {
		return err
	}
	_, err := do(b[n:], 0)
	return err
}

// unspill reads the next event of the file. The caller has the lock.
func (q *Queue) unspill() (e Event, ok bool) {
	var size [4]byte
	err := q.inRing(q.file.ReadAt, size[:], q.from)
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if err == nil {
		err = q.inRing(q.file.ReadAt, b, q.from+4)
	}
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil {
		q.lost += q.waiting()
		q.from, q.end = 0, 0
		return e, false
	}
	if q.from += int64(4 + len(b)); q.from == q.end {
		q.from, q.end = 0, 0
		_ = q.file.Truncate(0) // to give the room back; what is not truncated is written over
	}
	return e, true
}

// waiting counts the events in the file. The caller has the lock.
func (q *Queue) waiting() (n int) {
	var size [4]byte
	for at := q.from; at < q.end; n++ {
		if err := q.inRing(q.file.ReadAt, size[:], at); err != nil {
			return n + 1
		}
		at += 4 + int64(binary.BigEndian.Uint32(size[:]))
	}
	return n
}

func (q *Queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.file != nil {
		_ = q.file.Close() // it has no name any more
		q.file, q.from, q.end = nil, 0, 0
	}
}
