package up

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	herov1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/image"
	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/bellerophon/operator"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// firstHero is the hero whose leader is killed.
const firstHero = "hero-1"

// onHeroes applies heroes and shows what becomes of them. On a real node the operator runs in the cluster, from its
// image. A simulated node runs no members, so the operator runs here, and waits for them.
func (r *run) onHeroes(ctx context.Context, config *rest.Config, cluster *localcluster.Cluster) error {
	if _, err := install.MakeNamespace(ctx, config, r.options.Namespace); err != nil {
		return connect.Explain(err)
	}
	if r.isReal {
		if err := r.loadImages(ctx, cluster); err != nil {
			return err
		}
	}
	installed, err := install.Operator(ctx, config, install.Options{Heroes: true, Deploy: r.isReal, OpenMetrics: r.options.Prometheus})
	if err != nil {
		return connect.Explain(err)
	}
	group := lifecycle.New(ctx)
	if r.isReal {
		r.screen.Println(r.tick() + " the operator is installed from the chart, and runs in the cluster")
		if r.options.Prometheus {
			group.Go("Prometheus", func(ctx context.Context) error { return r.scrapePods(ctx, config) })
		}
	} else {
		account, err := installed.Config(ctx, config)
		if err != nil {
			return connect.Explain(err)
		}
		options := controller.Options{Logger: r.log}
		listening := r.serveMetrics(&options)
		manager, err := operator.New(account, options, operator.Kinds{Heroes: true})
		if err != nil {
			return err
		}
		r.screen.Println(r.screen.Paint(screen.Yellow, "!") + " pods are simulated here, so no member of a hero runs: its phase is Bootstrapping, and Degraded after a minute")
		group.Go("the operator", manager.Run)
		r.scrapeOnce(group, listening)
	}
	running := make(chan string, 1) // the leader of the first hero, once
	group.Go("the heroes", func(ctx context.Context) error {
		if err := r.applyHeroes(ctx, config); err != nil {
			return connect.Explain(err)
		}
		r.screen.Println(fmt.Sprintf("%s heroes applied in namespace %s: %d", r.tick(), r.options.Namespace, r.options.Heroes))
		return r.followHeroes(ctx, config, running)
	})
	group.Go("the proof", func(ctx context.Context) error {
		var late <-chan time.Time // never, unless the run has to end
		if r.options.UntilSettled {
			patience := time.NewTimer(r.options.Timeout)
			defer patience.Stop()
			late = patience.C
		}
		select {
		case leader := <-running:
			return r.prove(ctx, config, leader)
		case <-late:
			return fmt.Errorf("%s is not running after %v", firstHero, r.options.Timeout)
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

// loadImages builds the images of the operator and of the members, and loads them into the node.
func (r *run) loadImages(ctx context.Context, cluster *localcluster.Cluster) error {
	folder, err := os.MkdirTemp("", "bellerophon-images-")
	if err != nil {
		return fmt.Errorf("building the images: %w", err)
	}
	defer os.RemoveAll(folder)
	program, archive := filepath.Join(folder, "program"), filepath.Join(folder, "image.tar")
	for _, each := range []image.Program{image.Operator, image.Server} {
		r.screen.Println("  building the image " + each.Image)
		if err := each.Compile(ctx, program); err != nil {
			return err
		}
		if _, err := each.Write(program, each.Image, archive); err != nil {
			return err
		}
		if err := cluster.LoadImage(ctx, archive); err != nil {
			return err
		}
	}
	return nil
}

// applyHeroes creates the heroes, of three members each.
func (r *run) applyHeroes(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	for i := range r.options.Heroes {
		name := fmt.Sprintf("hero-%d", i+1)
		_, err := client.Resource(herov1.GroupVersion.WithResource("heroes")).Namespace(r.options.Namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": herov1.GroupVersion.String(), "kind": "Bellerophon",
			"metadata": map[string]any{"name": name, "labels": map[string]any{sampleLabel: "up"}},
			"spec":     map[string]any{"wingedHorseName": horses[i%len(horses)]},
		}}, metav1.CreateOptions{FieldManager: fieldManager})
		if err != nil {
			return fmt.Errorf("applying hero %s: %w", name, err)
		}
	}
	return nil
}

// followHeroes shows the heroes until ctx ends. It sends the leader of the first hero once this is running.
func (r *run) followHeroes(ctx context.Context, config *rest.Config, running chan<- string) error {
	watch, err := watchSamples(config, r.options.Namespace, &herov1.Bellerophon{}, "heroes")
	if err != nil {
		return err
	}
	known, lines := map[string]*herov1.Bellerophon{}, map[string]string{}
	err = streams.ForEach(ctx, watch, func(events []streams.Event) {
		for _, event := range events {
			hero, is := event.Object.(*herov1.Bellerophon)
			switch {
			case !is:
			case event.Type == streams.Deleted:
				delete(known, hero.Name)
			default:
				known[hero.Name] = hero
				if hero.Name == firstHero && hero.Status.Phase == herov1.PhaseRunning && running != nil {
					running <- hero.Status.Leader
					running = nil
				}
				if line := heroLine(hero); lines[hero.Name] != line && !r.screen.IsLive() {
					lines[hero.Name] = line
					r.screen.Println(fmt.Sprintf("%7.2fs  %s", *r.since(), line))
				}
			}
		}
		r.showHeroes(known)
	}, func(err error) { r.log.Warn(connect.Explain(err).Error()) })
	r.screen.Keep()
	return err
}

const heroColumns = "%-12s %-14s %7s  %-10s %s"

func heroLine(hero *herov1.Bellerophon) string {
	message := ""
	if ready := meta.FindStatusCondition(hero.Status.Conditions, herov1.ConditionReady); ready != nil && ready.Status != metav1.ConditionTrue {
		message = ready.Message
	}
	if trouble := meta.FindStatusCondition(hero.Status.Conditions, herov1.ConditionDegraded); trouble != nil && trouble.Status == metav1.ConditionTrue {
		message = trouble.Message
	}
	return strings.TrimRight(fmt.Sprintf(heroColumns, hero.Name, hero.Status.Phase, fmt.Sprintf("%d/%d", hero.Status.ReadyReplicas, *hero.Spec.Replicas), hero.Status.Leader, message), " ")
}

func (r *run) showHeroes(known map[string]*herov1.Bellerophon) {
	if !r.screen.IsLive() {
		return
	}
	lines := []string{"", r.screen.Paint(screen.Bold, fmt.Sprintf(heroColumns, "HERO", "PHASE", "READY", "LEADER", "MESSAGE"))}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		lines = append(lines, heroLine(known[name]))
	}
	r.screen.Live(append(lines, "", "Ctrl-C ends and cleans up")...)
}

// prove writes a key, kills the leader, and reads the key. With UntilSettled it ends the run then.
func (r *run) prove(ctx context.Context, config *rest.Config, leader string) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	const key, value = "horse", "pegasus"
	path := fmt.Sprintf("/api/v1/namespaces/%s/services/%s:http/proxy/v1/keys/%s", r.options.Namespace, firstHero, key)
	if err := again(ctx, func() error {
		return client.CoreV1().RESTClient().Put().AbsPath(path).Body([]byte(value)).Do(ctx).Error()
	}); err != nil {
		return fmt.Errorf("writing a key to %s: %w", firstHero, err)
	}
	r.screen.Println(fmt.Sprintf("%s %s is written to %s: %s", r.tick(), key, firstHero, value))
	if err := client.CoreV1().Pods(r.options.Namespace).Delete(ctx, leader, *metav1.NewDeleteOptions(0)); err != nil {
		return fmt.Errorf("killing the leader of %s: %w", firstHero, err)
	}
	r.screen.Println(fmt.Sprintf("%s %s, its leader, is killed", r.tick(), leader))
	began := time.Now()
	if err := again(ctx, func() error {
		got, err := client.CoreV1().RESTClient().Get().AbsPath(path).Do(ctx).Raw()
		if err == nil && string(got) != value {
			err = fmt.Errorf("%s is %q", key, got)
		}
		return err
	}); err != nil {
		return fmt.Errorf("reading the key of %s: %w", firstHero, err)
	}
	r.screen.Println(fmt.Sprintf("%s %s is still %s, read after %.1f s", r.tick(), key, value, time.Since(began).Seconds()))
	if r.options.UntilSettled {
		return errSettled
	}
	return nil
}

// again calls a function until it succeeds or ctx ends. A Service may name a member for a moment that has just ended,
// and says nothing when it names another one.
func again(ctx context.Context, do func() error) error {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}
