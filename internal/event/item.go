package event

// Item is a work item of a map, from the list that it was read from to its dead letter.
type Item struct {
	Index int // its place in the list, from 1, as Event.Index
	ID    string
	Data  []byte // JSON
}

// Number is what programs and people know the item of an index by, who count from 0:
// ${item_index}, --json, the dashboard.
func Number(index int) int { return index - 1 }

// IndexOf is the index of the item that programs and people know by a number.
func IndexOf(number int) int { return number + 1 }
