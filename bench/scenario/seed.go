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

// SeedPart is the largest number of objects in one namespace. The StatefulSet controller goes
// through all revisions of a namespace for each of its StatefulSets. A much smaller number would
// slow down the ideal client, which waits for the last object of a namespace before it starts the
// next namespace.
const SeedPart = 200

// seedNamespace returns the name of the namespace of a part.
func seedNamespace(part int) string { return fmt.Sprintf("found-%03d", part) }

// Seed lets the ideal client create and finish n objects without servers, because no contender is
// as fast. It calls progress with the number of finished objects.
func (c *Clients) Seed(ctx context.Context, config *rest.Config, n int, progress func(done int)) error {
	for done := 0; done < n; done += SeedPart {
		progress(done)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: seedNamespace(done / SeedPart)}}
		if _, err := c.Core().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the namespace %s: %w", namespace.Name, err)
		}
		burst := ideal.Burst{Namespace: namespace.Name, Prefix: "hero", Objects: min(SeedPart, n-done), InFlight: inFlight}
		if _, err := burst.Run(ctx, config); err != nil {
			return err
		}
	}
	progress(n)
	return nil
}

// adoptions is the largest number of writes per object with which a contender adopts the ideal
// client's objects: the field managers of three children, and the messages of a status.
const adoptions = 4

// Adopt lets the contender adopt n objects that the ideal client finished. The contender writes
// what differs from its own result, such as the messages of the status.
func (w *World) Adopt(ctx context.Context, n int) error {
	adopting, err := w.start(ctx)
	if err == nil {
		err = w.settle(adopting, adoptions*n)
	}
	return errors.Join(err, w.dismiss(ctx))
}

// dismiss ends the contender and ignores a Failure. A contender that holds very many objects may
// take too long to end and be killed, but its writes are complete.
func (w *World) dismiss(ctx context.Context) error {
	err := w.stop(ctx)
	var failure *Failure
	if errors.As(err, &failure) {
		return nil
	}
	return err
}
