package scenario

import (
	"context"
	"errors"
	"fmt"

	"github.com/bellerophon-io/bellerophon/bench/ideal"
	"k8s.io/client-go/rest"
)

// seedPart is how many objects the ideal client makes before the next progress is told.
const seedPart = 1000

// seedPrefix begins the names of a part.
func seedPrefix(part int) string { return fmt.Sprintf("found-%02d", part) }

// Seed has the ideal client make and finish n objects, without servers: no contender is as
// fast. progress is told how many are finished.
func Seed(ctx context.Context, config *rest.Config, n int, progress func(done int)) error {
	for done := 0; done < n; done += seedPart {
		progress(done)
		burst := ideal.Burst{
			Namespace: Namespace, Prefix: seedPrefix(done / seedPart), Objects: min(seedPart, n-done), InFlight: inFlight,
		}
		if _, err := burst.Run(ctx, config); err != nil {
			return err
		}
	}
	progress(n)
	return nil
}

// adoptions is the most writes for each object that a contender makes of what the ideal
// client left: the managers of three children, and the messages of a status.
const adoptions = 4

// Adopt has the contender make n objects its own that the ideal client finished: it writes
// what it would have written otherwise, such as the messages of the status.
func (w *World) Adopt(ctx context.Context, n int) error {
	adopting, err := w.start(ctx)
	if err == nil {
		err = w.settle(adopting, adoptions*n)
	}
	return errors.Join(err, w.stop(ctx))
}
