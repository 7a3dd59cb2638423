// Package queue is a sample of Go with a type, a method and a function.
package queue

// Ring is a queue of fixed size that forgets its oldest item.
type Ring struct {
	items []string
	next  int
}

// NewRing returns an empty ring for a number of items.
func NewRing(size int) *Ring {
	return &Ring{items: make([]string, size)}
}

// PushItem stores an item in place of the oldest one.
func (r *Ring) PushItem(item string) {
	r.items[r.next] = item
	r.next = (r.next + 1) % len(r.items)
}
