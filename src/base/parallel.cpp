#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace sdm {

struct Parallel::Pool {
  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake, done;
  std::uint64_t generation = 0;
  int running = 0;
  bool stopping = false;

  // The job of the current generation.
  const std::function<void(std::int64_t, std::int64_t)>* body = nullptr;
  std::int64_t count = 0, grain = 1;
  std::atomic<std::int64_t> next{0};
  std::exception_ptr error;

  void work() {
    for (;;) {
      const std::int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count) return;
      try {
        (*body)(begin, std::min(begin + grain, count));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next.store(count, std::memory_order_relaxed);
      }
    }
  }

  void serve() {
    std::uint64_t seen = 0;
    for (;;) {
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stopping || generation != seen; });
        if (stopping) return;
        seen = generation;
      }
      work();
      const std::lock_guard lock(mutex);
      if (--running == 0) done.notify_one();
    }
  }
};

Parallel::Parallel(int threads) : pool_(std::make_unique<Pool>()) {
  if (threads <= 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  pool_->workers.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int i = 1; i < threads; ++i) pool_->workers.emplace_back([pool = pool_.get()] { pool->serve(); });
  } catch (const std::exception&) {  // the system gives no more: fewer do the same work, to the bit
  }
}

Parallel::~Parallel() {
  {
    const std::lock_guard lock(pool_->mutex);
    pool_->stopping = true;
  }
  pool_->wake.notify_all();
  for (std::thread& worker : pool_->workers) worker.join();
}

int Parallel::threads() const { return static_cast<int>(pool_->workers.size()) + 1; }

void Parallel::for_ranges(std::int64_t count, std::int64_t grain,
                          const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (count <= 0) return;
  Pool& pool = *pool_;
  if (pool.workers.empty() || count <= grain) {
    body(0, count);
    return;
  }
  {
    const std::lock_guard lock(pool.mutex);
    pool.body = &body;
    pool.count = count;
    pool.grain = std::max<std::int64_t>(1, grain);
    pool.next.store(0, std::memory_order_relaxed);
    pool.error = nullptr;
    pool.running = static_cast<int>(pool.workers.size());
    ++pool.generation;
  }
  pool.wake.notify_all();
  pool.work();
  std::unique_lock lock(pool.mutex);
  pool.done.wait(lock, [&] { return pool.running == 0; });
  if (pool.error) std::rethrow_exception(pool.error);
}

}  // namespace sdm
