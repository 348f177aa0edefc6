package controller

import (
	"time"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// These are the bounds of Resync.
const (
	shortestResync = time.Second
	longestResync  = 8760 * time.Hour
)

// resyncing returns a stream that names all objects of a kind at each tick.
func resyncing(of *watched, every time.Duration) streams.Stream[types.NamespacedName] {
	return streams.MapOnReceive(sources.Interval(every), func([]time.Time) (names []types.NamespacedName, err error) {
		if store := of.store(); store != nil {
			for _, object := range store.List("") {
				names = append(names, nameOf(object))
			}
		}
		return names, nil
	})
}
