package scenario

import (
	"context"
	"errors"
	"fmt"

	"github.com/bellerophon-io/bellerophon/bench/ideal"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// SeedPart is how many objects there are in a namespace, at most: the StatefulSet controller
// looks at all revisions of a namespace for each of its StatefulSets. Much fewer would take
// the ideal client longer, which waits for the last of a namespace before it makes the next.
const SeedPart = 200

// seedNamespace is the name of the namespace of a part.
func seedNamespace(part int) string { return fmt.Sprintf("found-%03d", part) }

// Seed has the ideal client make and finish n objects, without servers: no contender is as
// fast. progress is told how many are finished.
func (c *Clients) Seed(ctx context.Context, config *rest.Config, n int, progress func(done int)) error {
	for done := 0; done < n; done += SeedPart {
		progress(done)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: seedNamespace(done / SeedPart)}}
		if _, err := c.Core().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("making the namespace %s: %w", namespace.Name, err)
		}
		burst := ideal.Burst{Namespace: namespace.Name, Prefix: "hero", Objects: min(SeedPart, n-done), InFlight: inFlight}
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
	return errors.Join(err, w.dismiss(ctx))
}

// dismiss ends the contender, which may be killed if it takes too long, as one that holds very
// many objects may: what it wrote is there.
func (w *World) dismiss(ctx context.Context) error {
	err := w.stop(ctx)
	var failure *Failure
	if errors.As(err, &failure) {
		return nil
	}
	return err
}
