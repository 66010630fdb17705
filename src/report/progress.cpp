#include "report/progress.h"

#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "report/layout.h"

namespace sdm {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr std::size_t kBarColumns = 24;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Ink ink_of(CaseStatus status) {
  if (status == CaseStatus::ok) return Ink::green;
  return status == CaseStatus::skipped || status == CaseStatus::not_run ? Ink::yellow : Ink::red;
}

}  // namespace

ProgressStyle progress_style(bool quiet, ColorMode color) {
  return {.bar = is_terminal(STDERR_FILENO),
          .color = color_wanted(color, STDERR_FILENO),
          .quiet = quiet,
          .width = terminal_width(STDERR_FILENO)};
}

Progress::Progress(int total, ProgressStyle style, std::FILE* out, Clock clock)
    : total_(total), style_(style), out_(out), clock_(clock ? std::move(clock) : steady_seconds), started_(clock_()) {}

Progress::~Progress() { finish(); }

void Progress::start_case(std::string_view id) {
  id_ = one_line(id);
  phase_.clear();
  case_started_ = clock_();
  draw(true);
}

void Progress::phase(std::string_view what) {
  phase_ = one_line(what);
  draw(false);
}

void Progress::finish_case(CaseStatus status, std::string_view reason) {
  ++done_;
  const bool bad = ink_of(status) == Ink::red;
  if (bad) ++failed_;
  const Paint paint(style_.color);
  // The bar counts what went well in silence; what did not stays on the screen.
  if (!style_.quiet && (!style_.bar || bad)) {
    const std::string why = reason.empty() ? "" : ": " + one_line(reason);
    print_line(fmt::format("[{}/{}] {}  {}{}  ({})", done_, total_, id_, paint(ink_of(status), name_of(status)), why,
                           human_seconds(clock_() - case_started_)));
  }
  draw(true);
}

void Progress::warn(std::string_view text) {
  print_line(Paint(style_.color)(Ink::yellow, "warning:") + " " + one_line(text));
  draw(true);
}

void Progress::note(std::string_view text) {
  if (style_.quiet) return;
  print_line(one_line(text));
  draw(true);
}

void Progress::finish() {
  erase();
  style_.bar = false;
}

void Progress::print_line(std::string_view text) {
  erase();
  std::fprintf(out_, "%.*s\n", static_cast<int>(text.size()), text.data());
  std::fflush(out_);
}

void Progress::erase() {
  if (!visible_) return;
  std::fputs("\r\x1b[2K", out_);
  std::fflush(out_);
  visible_ = false;
}

std::string Progress::bar_text() const {
  const double share = total_ > 0 ? std::min(1.0, static_cast<double>(done_) / total_) : 1.0;
  const auto full = static_cast<std::size_t>(share * static_cast<double>(kBarColumns));
  const Paint paint(style_.color);
  std::string head = fmt::format("{}/{}", done_, total_);
  if (failed_ > 0) head += fmt::format(" · {} failed", failed_);
  const double elapsed = clock_() - started_;
  if (done_ > 0 && done_ < total_) head += " · about " + human_seconds(elapsed / done_ * (total_ - done_)) + " left";
  std::string tail = id_ + (phase_.empty() ? "" : " · " + phase_);
  // One column less than the terminal has, lest it wraps; the tail gives way first, then the bar itself.
  const std::size_t room = style_.width > 1 ? style_.width - 1 : 0;
  const std::size_t used = kBarColumns + 1 + display_width(head) + 2;
  if (used > room) return shorten(head, room);
  tail = shorten(tail, room - used);
  return paint(failed_ > 0 ? Ink::red : Ink::green, repeat("━", full)) +
         paint(Ink::dim, repeat("─", kBarColumns - full)) + " " + head + "  " + tail;
}

void Progress::draw(bool force) {
  if (!style_.bar || style_.quiet) return;
  const double now = clock_();
  if (!force && drawn_ >= 0 && now - drawn_ < kRedrawSeconds) return;
  drawn_ = now;
  std::fprintf(out_, "\r\x1b[2K%s", bar_text().c_str());
  std::fflush(out_);
  visible_ = true;
}

}  // namespace sdm
