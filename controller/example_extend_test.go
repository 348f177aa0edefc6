package controller_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// redact returns a stage that removes the data of Secrets before they enter the cache.
func redact() controller.Stage {
	return controller.Stage{Name: "redact", Run: func(events streams.Stream[streams.Event]) streams.Stream[streams.Event] {
		return streams.MapOnReceive(events, func(batch []streams.Event) ([]streams.Event, error) {
			for i := range batch {
				if secret, ok := batch[i].Object.(*corev1.Secret); ok {
					redacted := secret.DeepCopy() // Other readers may hold the object.
					redacted.Data = nil
					batch[i].Object = redacted
				}
			}
			return batch, nil
		})
	}}
}

// A stage of your own changes events before they enter the cache.
func ExampleStage() {
	server, _ := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	manager, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{Stages: []controller.Stage{redact()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	_ = manager.Add("secrets", func(_ context.Context, request operators.Request) (time.Duration, error) {
		held, found := cached[*corev1.Secret](manager.Client(), request.NamespacedName)
		fmt.Println(request.Name, found, len(held.Data))
		stop()
		return 0, nil
	}, controller.For(&corev1.Secret{}))

	token := secret("token")
	token.Data = map[string][]byte{"token": []byte("wings")}
	_ = server.Create(token)
	_ = manager.Run(ctx)
	// Output: token true 0
}

// lines is a source: it emits each line of a connection as the name of an object. It ends with the
// connection.
func lines(connection net.Conn) streams.Stream[types.NamespacedName] {
	return streams.Create(func(ctx context.Context, out streams.Sink[types.NamespacedName]) {
		defer connection.Close()
		defer context.AfterFunc(ctx, func() { _ = connection.Close() })() // Ends a read that waits.
		scanner := bufio.NewScanner(connection)
		for scanner.Scan() {
			if !out.Send([]types.NamespacedName{{Namespace: "default", Name: scanner.Text()}}) {
				return
			}
		}
		if err := scanner.Err(); err != nil && ctx.Err() == nil {
			out.Error(&streams.Error{Source: "lines of " + connection.RemoteAddr().String(), Err: err})
		}
	})
}

// connect returns the two ends of a connection on the loopback interface.
func connect() (here, there net.Conn) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer func() { _ = listener.Close() }()
	if here, err = (&net.Dialer{}).DialContext(context.Background(), "tcp", listener.Addr().String()); err != nil {
		panic(err)
	}
	if there, err = listener.Accept(); err != nil {
		panic(err)
	}
	return here, there
}

// The lines of a socket feed a controller.
func ExampleFrom_socket() {
	here, there := connect()
	_, _ = fmt.Fprint(there, "pegasus\narion\n")

	ctx, stop := context.WithCancel(context.Background())
	manager, _ := exampleManager()
	var mu sync.Mutex
	seen := map[string]bool{}
	_ = manager.Add("heroes", func(_ context.Context, request operators.Request) (time.Duration, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[request.Name] = true
		if len(seen) == 2 {
			stop()
		}
		return 0, nil
	}, controller.For(&corev1.ConfigMap{}), controller.From("socket", lines(here)))
	_ = manager.Run(ctx)
	_ = there.Close()
	fmt.Println(seen["pegasus"], seen["arion"])
	// Output: true true
}

// A registry of your own holds metrics beside the manager's.
func ExampleOptions_registry() {
	registry := prometheus.NewRegistry()
	fed := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "heroes_fed_total", Help: "Heroes that were fed."}, []string{"outcome"})
	registry.MustRegister(fed)
	server, _ := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	_, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{
		Registry: registry,
		Logger:   slog.New(slog.DiscardHandler),
		OnResult: func(result operators.Result) { fed.WithLabelValues(string(result.Outcome)).Inc() },
	})
	fed.WithLabelValues(string(operators.Succeeded)).Inc()
	families, _ := registry.Gather()
	for _, family := range families {
		if family.GetName() == "heroes_fed_total" {
			fmt.Println(family.GetName(), family.GetMetric()[0].GetCounter().GetValue(), err)
		}
	}
	// Output: heroes_fed_total 1 <nil>
}
