package up

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/promserver"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

const (
	shardGroup = "bellerophon-up"
	replaced   = time.Second      // after which another process takes the place of one that has ended
	patience   = 30 * time.Second // for a process to end in order
)

// onReplicas runs the operator as several processes that share the samples. They use the credentials of the
// kubeconfig.
func (r *run) onReplicas(ctx context.Context, config *rest.Config, made *samples, namespaces []string) error {
	var addresses []string
	for range r.options.Replicas {
		address := "127.0.0.1:0"
		if r.options.Prometheus { // It has to know the address, also of a process that takes another one's place.
			var err error
			if address, err = promserver.FreeAddress(ctx); err != nil {
				return err
			}
		}
		addresses = append(addresses, address)
	}
	group := lifecycle.New(ctx)
	for _, address := range addresses {
		group.Go("a replica of the operator", func(ctx context.Context) error { return r.replica(ctx, namespaces, address) })
	}
	if r.options.Prometheus {
		group.Go("Prometheus", func(ctx context.Context) error { return r.scrape(ctx, addresses...) })
	}
	group.Go("the samples", func(ctx context.Context) error {
		if err := made.apply(ctx); err != nil {
			return connect.Explain(err)
		}
		r.screen.Println(fmt.Sprintf("%s %d sample objects are applied in namespace %s", r.tick(), r.options.Sheroes, r.options.Namespace))
		return r.followReplicas(ctx, config)
	})
	return group.Wait()
}

// replica runs one process after another until ctx ends, as a Deployment does for one replica.
func (r *run) replica(ctx context.Context, namespaces []string, address string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the program of a replica: %w", err)
	}
	arguments := []string{
		"operator", "--kubeconfig", r.report.Cluster.Kubeconfig, "--shards", r.options.Namespace + "/" + shardGroup,
		"--metrics-address", address, "--health-address", "", "--log-level", strings.ToLower(r.options.Log.String()),
	}
	for _, namespace := range namespaces {
		arguments = append(arguments, "--namespace", namespace)
	}
	for ctx.Err() == nil {
		process := exec.CommandContext(ctx, self, arguments...)
		process.Stderr = r.screen
		process.Cancel = func() error { return process.Process.Signal(syscall.SIGTERM) }
		process.WaitDelay = patience
		err := process.Run()
		if ctx.Err() != nil {
			break
		}
		r.screen.Println(fmt.Sprintf("a replica has ended (%v), and another one takes its place", err))
		pause := time.NewTimer(replaced)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
	return nil
}

// shares is what the table of replicas shows.
type shares struct {
	claims map[string]shards.Claim // by the name of the Lease
	ready  map[string]bool         // by the name of the sample
}

// followReplicas shows who owns how much, until ctx ends.
func (r *run) followReplicas(ctx context.Context, config *rest.Config) error {
	kind, err := sources.KindOf(scheme.Scheme, &coordinationv1.Lease{})
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("making an HTTP client for %s: %w", config.Host, err)
	}
	requests, err := kind.Client(config, client)
	if err != nil {
		return err
	}
	samples, err := watchSamples(config, r.options.Namespace, &v1.BellerophonSimple{}, sheroes.Resource)
	if err != nil {
		return err
	}
	leases := sources.Watch(requests, kind, sources.WatchOptions{
		Namespaces: []string{r.options.Namespace}, LabelSelector: shards.Selector(shardGroup),
	})
	held, shown := &shares{claims: map[string]shards.Claim{}, ready: map[string]bool{}}, ""
	err = streams.ForEach(ctx, streams.Merge(samples, leases), func(events []streams.Event) {
		for i := range events {
			held.take(&events[i])
		}
		lines := held.table(r.screen, r.options.Sheroes)
		if r.screen.IsLive() {
			r.screen.Live(lines...)
			return
		}
		if text := strings.Join(lines, "\n"); text != shown {
			shown = text
			r.screen.Println(text)
		}
	}, func(err error) { r.log.Warn(connect.Explain(err).Error()) })
	r.screen.Keep()
	return err
}

// take takes in an event of a Lease or of a sample.
func (s *shares) take(event *streams.Event) {
	gone := event.Type == streams.Deleted
	switch object := event.Object.(type) {
	case *coordinationv1.Lease:
		delete(s.claims, object.Name)
		if claim, err := shards.ClaimOf(object); err == nil && !gone {
			s.claims[object.Name] = claim
		}
	case *v1.BellerophonSimple:
		s.ready[object.Name] = !gone && rowOf(object).State == v1.ConditionReady
	}
}

// table returns the lines that show who owns how much.
func (s *shares) table(on *screen.Screen, samples int) []string {
	lines := []string{"", on.Paint(screen.Bold, fmt.Sprintf("%-28s %6s %8s", "REPLICA", "SLOTS", "OBJECTS"))}
	claims := slices.SortedFunc(maps.Values(s.claims), func(a, b shards.Claim) int { return strings.Compare(a.Identity, b.Identity) })
	for _, claim := range claims {
		line := fmt.Sprintf("%-28s %6d %8d", claim.Identity, claim.Slots.Len(), claim.Keys)
		if claim.Leaving {
			line += "  leaving"
		}
		lines = append(lines, line)
	}
	ready := 0
	for _, is := range s.ready {
		if is {
			ready++
		}
	}
	return append(lines, "", fmt.Sprintf("%d of %d samples are Ready · kill -9 the number of a replica to see the others take over · Ctrl-C ends", ready, samples))
}
