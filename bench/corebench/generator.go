package main

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// generator opens the same watches and only records the events. It costs as much as the fake API
// server, client-go's reading of a watch, and the records together.
func generator() side {
	return side{name: "generator", run: func(ctx context.Context, world *world, recorder *recorder) error {
		group := lifecycle.New(ctx)
		for i := range world.feeds {
			group.Go("watch", func(ctx context.Context) error {
				events, err := openWatch(ctx, world.clients[i], world.feeds[i].script.kind.Resource())
				if err != nil {
					return err
				}
				defer events.Stop()
				for event := range events.ResultChan() {
					if event.Type == watch.Bookmark {
						continue
					}
					object, ok := event.Object.(streams.Object)
					if !ok {
						return fmt.Errorf("read a watch event: got a %T", event.Object)
					}
					recorder.saw(i, keyOfName(object.GetName()), numberOf(object), time.Since(world.clock))
				}
				return ctx.Err()
			})
		}
		return group.Wait()
	}}
}

func openWatch(ctx context.Context, client rest.Interface, resource string) (watch.Interface, error) {
	yes := true
	options := &metav1.ListOptions{
		Watch: true, AllowWatchBookmarks: true,
		SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	return client.Get().Resource(resource).VersionedParams(options, metav1.ParameterCodec).Watch(ctx)
}
