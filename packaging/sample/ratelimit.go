// Package ratelimit slows callers down with a bucket of tokens that fills at a steady pace.
package ratelimit

import (
	"sync"
	"time"
)

// Bucket holds up to capacity tokens; one more arrives every interval.
type Bucket struct {
	mu       sync.Mutex
	capacity int
	tokens   int
	interval time.Duration
	last     time.Time
}

// NewBucket returns a full bucket, so that a first burst of requests passes at once.
func NewBucket(capacity int, interval time.Duration, now time.Time) *Bucket {
	return &Bucket{capacity: capacity, tokens: capacity, interval: interval, last: now}
}

// Allow takes a token if there is one. A caller that is refused has to try again later.
func (b *Bucket) Allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(now)
	if b.tokens == 0 {
		return false
	}
	b.tokens--
	return true
}

func (b *Bucket) refill(now time.Time) {
	arrived := int(now.Sub(b.last) / b.interval)
	if arrived <= 0 {
		return
	}
	b.tokens = min(b.capacity, b.tokens+arrived)
	b.last = b.last.Add(time.Duration(arrived) * b.interval)
}
