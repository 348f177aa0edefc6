package dev_test

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/devtest"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	realSchedules = flag.Int("real-schedules", 2, "how many random schedules run on a real node; the full count is 200")
	realFirst     = flag.Int("real-first", 0, "the seed of the first random schedule on a real node")
)

const (
	branchFiles      = 300
	largeBranchFiles = 5000 // in one of ten schedules

	// settleTime bounds the time after the last step. The kubelet waits up to 80 seconds before it starts a
	// container that has ended four times.
	settleTime = 3 * time.Minute

	// maxKills is how many times a schedule ends a container, because the kubelet waits twice as long each time.
	maxKills = 3
)

// TestRandomSchedulesOnARealNodeEndWithTheProjectsTree disturbs a program and its pod in every way. Then it waits until
// the container has the project's files, and runs one run command.
func TestRandomSchedulesOnARealNodeEndWithTheProjectsTree(t *testing.T) {
	for seed := *realFirst; seed < *realFirst+*realSchedules; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newSession(t, "script")
			s.name = "greeting-script"
			random := rand.New(rand.NewPCG(uint64(seed), 28))
			d := &schedule{session: s, cluster: clustertest.WithRealNode(t), random: random, files: branchFiles}
			if seed%10 == 0 {
				d.files = largeBranchFiles
			}
			began := time.Now()
			defer func() {
				if t.Failed() {
					t.Logf("seed %d: %s", seed, strings.Join(d.steps, ", "))
				}
			}()
			defer d.endOutage()
			s.start(dev.Options{Keep: true})
			for range 6 + random.IntN(10) {
				d.pause(time.Duration(random.ExpFloat64() * float64(700*time.Millisecond)))
				d.step()
			}
			if d.files == largeBranchFiles { // Perhaps no step was one.
				d.steps = append(d.steps, d.switchBranch())
				d.pause(time.Duration(random.IntN(2000)) * time.Millisecond)
				d.step()
			}
			d.endOutage()
			settled := time.Now()
			d.settle()
			t.Logf("%d steps in %v, settled after %v, %d files", len(d.steps), settled.Sub(began).Round(time.Millisecond), time.Since(settled).Round(time.Millisecond), len(s.tree()))
			must(t, s.stop())
		})
	}
}

// schedule disturbs a session.
type schedule struct {
	*session
	cluster *localcluster.Cluster
	random  *rand.Rand
	files   int // of a branch
	steps   []string
	kills   int
	outage  *lifecycle.Group // nil before the first outage
}

// pause waits for a time.
func (d *schedule) pause(length time.Duration) {
	d.t.Helper()
	d.steps = append(d.steps, fmt.Sprintf("%dms", length.Milliseconds()))
	select {
	case <-time.After(length):
	case <-d.ctx.Done():
		d.t.Fatal(d.ctx.Err())
	}
}

// step does one thing that goes on in a project or a cluster.
func (d *schedule) step() {
	d.t.Helper()
	kinds := []func() string{
		d.edit, d.edit, d.create, d.create, d.delete, d.rename, d.changeType, d.link, d.switchBranch,
		d.deletePod, d.killContainer, d.scaleToZero, d.deleteDeployment, d.pauseServer, d.restartProgram,
	}
	d.steps = append(d.steps, kinds[d.random.IntN(len(kinds))]())
}

// path returns the path of a file of the project.
func (d *schedule) path(name string) string {
	return filepath.Join(d.project, filepath.FromSlash(name))
}

// write writes a file of the project, with its directory.
func (d *schedule) write(name, content string) {
	d.t.Helper()
	must(d.t, os.MkdirAll(filepath.Dir(d.path(name)), 0o755))
	must(d.t, os.WriteFile(d.path(name), []byte(content), 0o644))
}

// remove removes a file or a directory of the project.
func (d *schedule) remove(name string) {
	d.t.Helper()
	must(d.t, os.RemoveAll(d.path(name)))
}

// one returns one of the files that the application does not need, or "" if there is none.
func (d *schedule) one() string {
	d.t.Helper()
	var names []string
	must(d.t, fs.WalkDir(os.DirFS(d.project), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !slices.Contains([]string{"devfile.yaml", "greet.sh", "greeting.txt"}, name) {
			names = append(names, name)
		}
		return err
	}))
	if len(names) == 0 {
		return ""
	}
	return names[d.random.IntN(len(names))]
}

func (d *schedule) edit() string {
	d.write("greeting.txt", fmt.Sprintf("Hello %d\n", d.random.IntN(1000)))
	return "edit"
}

func (d *schedule) create() string {
	if info, err := os.Lstat(d.path("lib")); err == nil && !info.IsDir() {
		d.remove("lib")
	}
	name := fmt.Sprintf("lib/d%d/f%d", d.random.IntN(3), d.random.IntN(8))
	d.write(name, strings.Repeat("content ", d.random.IntN(9000)))
	return "create " + name
}

func (d *schedule) delete() string {
	name := d.one()
	if name == "" {
		return "no file to delete"
	}
	d.remove(name)
	return "delete " + name
}

func (d *schedule) rename() string {
	from, to := d.one(), fmt.Sprintf("renamed%d", d.random.IntN(9))
	if from == "" {
		return "no file to rename"
	}
	must(d.t, os.Rename(d.path(from), d.path(to)))
	return "rename " + from + " to " + to
}

// changeType makes a directory a file, or a file a directory.
func (d *schedule) changeType() string {
	info, err := os.Lstat(d.path("lib"))
	isDirectory := err == nil && info.IsDir()
	d.remove("lib")
	if isDirectory {
		d.write("lib", "a file\n")
		return "make lib a file"
	}
	d.write("lib/a/b", "in a directory\n")
	return "make lib a directory"
}

// link makes a symbolic link within the project, also to a directory.
func (d *schedule) link() string {
	name, target := fmt.Sprintf("link%d", d.random.IntN(2)), []string{"greeting.txt", "lib", "missing"}[d.random.IntN(3)]
	d.remove(name)
	must(d.t, os.Symlink(target, d.path(name)))
	return "link " + name + " to " + target
}

// switchBranch replaces all files that the application does not need.
func (d *schedule) switchBranch() string {
	entries, err := os.ReadDir(d.project)
	must(d.t, err)
	for _, entry := range entries {
		if entry.IsDir() || strings.HasPrefix(entry.Name(), "renamed") {
			d.remove(entry.Name())
		}
	}
	branch := d.random.IntN(3)
	for i := range d.files {
		if i%7 != branch { // Each branch lacks other files.
			d.write(fmt.Sprintf("p%d/f%d", i%17, i), fmt.Sprintf("%d of branch %d\n", i, i%(branch+2)))
		}
	}
	return fmt.Sprintf("switch to branch %d", branch)
}

// selector selects the objects of the application.
func (d *schedule) selector() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: contract.ApplicationLabel + "=" + d.name}
}

func (d *schedule) deletePod() string {
	must(d.t, d.client.CoreV1().Pods(d.namespace).DeleteCollection(d.ctx, metav1.DeleteOptions{}, d.selector()))
	return "delete the pod"
}

// killContainer ends the first process of the container, so that it restarts with the same volumes.
func (d *schedule) killContainer() string {
	if d.kills++; d.kills > maxKills {
		return "kill no more"
	}
	pods, err := d.client.CoreV1().Pods(d.namespace).List(d.ctx, d.selector())
	must(d.t, err)
	ctx, cancel := context.WithTimeout(d.ctx, 5*time.Second)
	defer cancel()
	for _, pod := range pods.Items {
		// The container may not run, or end before the answer comes.
		_, err = devtest.Exec(ctx, d.config, container.Place{Namespace: d.namespace, Pod: pod.Name, Container: "runtime"}, nil, "sh", "-c", "kill 1")
	}
	return fmt.Sprintf("kill the containers of %d pods (%v)", len(pods.Items), err)
}

// eachDeployment does something with the Deployment, if it exists.
func (d *schedule) eachDeployment(do func(name string) error) {
	d.t.Helper()
	deployments, err := d.client.AppsV1().Deployments(d.namespace).List(d.ctx, d.selector())
	must(d.t, err)
	for _, deployment := range deployments.Items {
		must(d.t, do(deployment.Name))
	}
}

func (d *schedule) scaleToZero() string {
	d.eachDeployment(func(name string) error {
		scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: name}}
		_, err := d.client.AppsV1().Deployments(d.namespace).UpdateScale(d.ctx, name, scale, metav1.UpdateOptions{})
		return err
	})
	return "scale to 0"
}

func (d *schedule) deleteDeployment() string {
	d.eachDeployment(func(name string) error {
		return d.client.AppsV1().Deployments(d.namespace).Delete(d.ctx, name, metav1.DeleteOptions{})
	})
	return "delete the Deployment"
}

// pauseServer begins an outage of the API server. The next steps go on meanwhile, until they need the server.
func (d *schedule) pauseServer() string {
	d.endOutage()
	length := time.Second + time.Duration(d.random.IntN(3000))*time.Millisecond
	must(d.t, d.cluster.Pause("kube-apiserver"))
	d.outage = lifecycle.New(d.ctx)
	d.outage.Go("outage", func(ctx context.Context) error {
		select {
		case <-time.After(length):
		case <-ctx.Done():
		}
		return d.cluster.Continue("kube-apiserver")
	})
	return fmt.Sprintf("outage of %v", length)
}

// endOutage waits for the end of an outage.
func (d *schedule) endOutage() {
	d.t.Helper()
	if d.outage != nil {
		must(d.t, d.outage.Wait())
		d.outage = nil
	}
}

// restartProgram ends the program and starts it again. What it has made stays.
func (d *schedule) restartProgram() string {
	must(d.t, d.stop())
	d.start(dev.Options{Keep: true})
	return "restart the program"
}

// settle waits until the Status, the container and the project agree. A Status may be older than the last step, so a
// difference is a failure only if it lasts.
func (d *schedule) settle() {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, settleTime)
	defer cancel()
	want := d.tree()
	root := want.Root()
	for {
		status, err := devtest.WaitStatus(ctx, d.client, d.namespace, d.name, func(status contract.Status) bool {
			return status.State == contract.RunCommandRunning && status.Sync.Root == root
		})
		if err == nil {
			if err = d.check(ctx, status, want); err == nil {
				return
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			d.t.Fatalf("%v; the program ended with %v", err, d.stop())
		}
	}
}

// countRuns prints how many run commands run. A command substitution drops the NUL bytes between arguments.
const countRuns = `n=0; for f in /proc/[0-9]*/cmdline; do case $(cat "$f" 2>/dev/null) in /bin/sh./greet.sh) n=$((n + 1)) ;; esac; done; echo $n`

// check returns what the container of a Status lacks.
func (d *schedule) check(ctx context.Context, status contract.Status, want worktree.Tree) error {
	at := container.Place{Namespace: d.namespace, Pod: status.Pod, Container: "runtime"}
	got, err := devtest.Tree(ctx, d.config, at, "/projects")
	if err != nil {
		return err
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("the container has other files than the project: %+v", worktree.Difference(got, want))
	}
	runs, err := devtest.Exec(ctx, d.config, at, nil, "sh", "-c", countRuns)
	if err == nil && string(runs) != "1\n" {
		err = fmt.Errorf("the container runs %s run commands", strings.TrimSpace(string(runs)))
	}
	return err
}
